//! kill -9 in append, side file, delete, import, repair, migration, moving and restoring, at every named place
//! and at random times: afterwards everything that was acknowledged holds, nothing is half there,
//! and the store is sound.
//!
//! The test is its own child: it works until it comes to the place, says so, and is killed there.
//! Only a kill that landed counts: the process was at the place, or in the middle of its work.
//! Every place is visited once; with `HERMES_CRASH_KILLS` so many kills land in the five works that
//! must survive them (those in moving and restoring come on top), at the first, second or third time that the
//! work comes to a place. `HERMES_CRASH_SEED` chooses them, `HERMES_CRASH_AT_RANDOM` is the number of
//! kills at random times.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hermes_core::{Env, ScriptedEnv, Timestamp};

use crate::crash_works::{WORKS, Work, begin, verify, work};
use crate::support::*;

/// How often a work is done that is killed at a place.
const ROUNDS: u64 = 3;
/// How late a kill at a random time comes, after the work began.
const LATEST_KILL_MS: u64 = 120;
/// The works whose kills are counted; those in the others come on top.
const COUNTED: [&str; 5] = ["append", "delete", "import", "repair", "migration"];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A number below `bound`.
fn below(chance: &ScriptedEnv, bound: u64) -> u64 {
    let mut random = [0; 8];
    chance.random(&mut random);
    u64::from_le_bytes(random) % bound.max(1)
}

/// The child's part: true if this process is one.
fn is_child(rounds: u64) -> bool {
    let Some(what) = std::env::var_os("HERMES_CRASH_WORK") else { return false };
    let folder = PathBuf::from(std::env::var_os("HERMES_CRASH_FOLDER").unwrap());
    let home = Home::at(&folder, u64::from(std::process::id()));
    println!("begun");
    work(&what.to_string_lossy(), &home, rounds);
    true
}

fn start(test: &str, what: &str, point: &str, home: &Home) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("HERMES_CRASH_WORK", what)
        .env("HERMES_CRASH_FOLDER", home.dir.path())
        .env("HERMES_STORE_POINT", point)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the child says until a line ends so; whether one did.
fn says(child: &mut Child, wanted: &str) -> bool {
    let out = BufReader::new(child.stdout.take().unwrap());
    out.lines().map_while(Result::ok).any(|line| line.ends_with(wanted))
}

/// Whether the place was reached; the process that came there is dead.
fn kill_at(what: &str, point: &str, nth: u64, home: &Home) -> bool {
    let test = "crash::a_process_killed_at_any_place_leaves_the_store_whole";
    let mut child = start(test, what, &format!("{point}:{nth}"), home);
    let reached = says(&mut child, &format!("at {point}"));
    if reached {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(
        reached || output.status.success(),
        "{what}, {point}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!reached || killed(output.status), "{what}, {point}: it ended by itself");
    reached
}

fn killed(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal() == Some(9)
}

/// Kills that landed, by what they count as.
#[derive(Default)]
struct Landed(BTreeMap<&'static str, u64>);

impl Landed {
    fn add(&mut self, work: &Work) {
        *self.0.entry(work.of).or_default() += 1;
    }

    fn counted(&self) -> u64 {
        COUNTED.iter().filter_map(|of| self.0.get(of)).sum()
    }

    fn print(&self, when: &str, tried: u64) {
        println!("\n{when}\n{:<10} {:>6}", "work", "kills");
        for (of, kills) in &self.0 {
            println!("{of:<10} {kills:>6}");
        }
        let all: u64 = self.0.values().sum();
        println!(
            "{all} kills landed of {tried} tried, {} in {}; the store was whole after each",
            self.counted(),
            COUNTED.join(", ")
        );
    }
}

#[test]
fn a_process_killed_at_any_place_leaves_the_store_whole() {
    if is_child(ROUNDS) {
        return;
    }
    let seed = setting("HERMES_CRASH_SEED", 20_261_130);
    println!("seed {seed}");
    let chance = ScriptedEnv::new(Timestamp(0), 0, seed);
    let (mut landed, mut tried) = (Landed::default(), 0);
    // How often a work comes to a place, as far as it is known.
    let mut most: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut kill = |work: &Work, point: &'static str, nth: u64| {
        let home = Home::new();
        begin(work.name, &home);
        let reached = kill_at(work.name, point, nth, &home);
        println!("{}: at \"{point}\" ({nth}): {}", work.name, if reached { "landed" } else { "-" });
        verify(work.name, &home);
        tried += 1;
        if reached {
            landed.add(work);
        }
        (reached, landed.counted())
    };
    let mut counted = 0;
    for work in &WORKS {
        for point in work.places {
            let (reached, so_far) = kill(work, point, 1);
            assert!(reached, "{} never comes to \"{point}\"", work.name);
            counted = so_far;
        }
    }
    let kinds: Vec<&str> = COUNTED.into_iter().chain(["move", "restore"]).collect();
    let kills = setting("HERMES_CRASH_KILLS", 0);
    let mut turn = 0;
    while counted < kills {
        let kind = kinds[turn % kinds.len()];
        turn += 1;
        let places: Vec<(&Work, &'static str)> = WORKS
            .iter()
            .filter(|work| work.of == kind)
            .flat_map(|work| work.places.iter().map(move |point| (work, *point)))
            .collect();
        let (work, point) = places[below(&chance, places.len() as u64) as usize];
        let most = most.entry((work.name, point)).or_insert(3);
        let nth = 1 + below(&chance, *most);
        let (reached, so_far) = kill(work, point, nth);
        if !reached {
            *most = nth - 1;
        }
        counted = so_far;
    }
    landed.print("kill -9 at named places", tried);
}

#[test]
fn a_process_killed_at_any_time_leaves_the_store_whole() {
    if is_child(u64::MAX) {
        return;
    }
    let kills = setting("HERMES_CRASH_AT_RANDOM", 10);
    let seed = setting("HERMES_CRASH_SEED", 20_261_130);
    println!("seed {seed}");
    let chance = ScriptedEnv::new(Timestamp(0), 0, seed);
    let (mut landed, mut tried) = (Landed::default(), 0);
    for kill in 0..kills {
        let work = &WORKS[(kill % WORKS.len() as u64) as usize];
        let home = Home::new();
        begin(work.name, &home);
        let test = "crash::a_process_killed_at_any_time_leaves_the_store_whole";
        let mut child = start(test, work.name, "", &home);
        assert!(says(&mut child, "begun"));
        std::thread::sleep(Duration::from_millis(below(&chance, LATEST_KILL_MS)));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(killed(output.status), "{}: it ended by itself: {stderr}", work.name);
        tried += 1;
        landed.add(work);
        verify(work.name, &home);
    }
    landed.print("kill -9 at random times", tried);
}
