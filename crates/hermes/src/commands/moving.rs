//! `hermes sessions move`: sessions that lie in the wrong profile go to the right one, whole, with
//! every request they sent; what is deleted here goes through the store's one delete function.

use std::collections::BTreeMap;

use hermes_core::SessionId;
use hermes_store::{Copied, DeleteReceipt, MoveRequest, Selection, Store};

use crate::app::App;
use crate::cli::stored::Move;
use crate::commands::{handoff, upkeep};
use crate::exit::{Exit, Failure};
use crate::{out, plugged};

/// Moves sessions by name, or those that say that they belong elsewhere.
///
/// # Errors
/// If one is unknown, in use, or cannot be moved whole; if there is no such profile, or nobody can
/// be asked.
pub fn run(app: &App, flags: &Move) -> anyhow::Result<Exit> {
    let store = upkeep::opened(app, flags.dry_run)?;
    let by_profile = wanted(app, &store, flags)?;
    let mut receipts = Vec::new();
    for (profile, ids) in by_profile {
        receipts.extend(one(app, &store, flags, &profile, ids)?);
    }
    plugged::deliver(app, &store)?;
    if flags.json && flags.misplaced {
        out::json(&receipts)?;
    } else if flags.json {
        receipts.first().map_or(Ok(()), out::json)?;
    } else if flags.misplaced && receipts.is_empty() {
        out::note("no session says that it belongs to another profile that there is");
    }
    Ok(Exit::Ok)
}

/// The sessions by the profile that they go to.
fn wanted(
    app: &App,
    store: &Store,
    flags: &Move,
) -> anyhow::Result<BTreeMap<String, Vec<SessionId>>> {
    let mut wanted: BTreeMap<String, Vec<SessionId>> = BTreeMap::new();
    if !flags.misplaced {
        let Some(to) = flags.to.clone().filter(|_| !flags.sessions.is_empty()) else {
            let text = "which sessions? hint: name them, or give --misplaced";
            return Err(Failure::new(Exit::Usage, text).into());
        };
        let ids = upkeep::replayable(app, store, &flags.sessions, flags.request_id.is_some())?;
        wanted.insert(to, ids);
        return Ok(wanted);
    }
    if flags.request_id.is_some() && flags.to.is_none() {
        let text = "a request has one receipt; hint: name one profile with --to";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    if let Some(to) = &flags.to {
        // Nothing to do is told by a receipt as well.
        wanted.insert(to.clone(), Vec::new());
    }
    for profile in app.home.profiles() {
        let here = profile == app.home.profile();
        if here || flags.to.as_ref().is_some_and(|to| *to != profile) {
            continue;
        }
        let owned = Selection {
            owner: Some(profile.clone()),
            archived: true,
            pinned: true,
            ..Selection::default()
        };
        let found = store.select(&owned)?;
        if !found.is_empty() {
            wanted.insert(profile, upkeep::ids_of(&found));
        }
    }
    Ok(wanted)
}

/// Moves sessions to one profile; nothing if the person says no.
fn one(
    app: &App,
    store: &Store,
    flags: &Move,
    profile: &str,
    ids: Vec<SessionId>,
) -> anyhow::Result<Option<DeleteReceipt>> {
    let there = app.of_profile(profile)?;
    let to = upkeep::opened(&there, flags.dry_run)?;
    let mut request = MoveRequest {
        ids,
        profile: app.home.profile().to_owned(),
        to: profile.to_owned(),
        request_id: flags.request_id.clone(),
        chosen_by: flags.misplaced.then(|| "misplaced".to_owned()),
        sessions_dir: upkeep::sessions_dir(app),
        outputs_dir: Some(app.home.outputs_dir()),
        sessions_dir_there: there.home.root().join("sessions"),
        dry_run: true,
    };
    if flags.dry_run || !flags.yes {
        let plan = store.move_sessions(&to, &request)?;
        if flags.dry_run {
            told(&plan, "would be moved:", profile, flags.json)?;
            return Ok(Some(plan));
        }
        if !plan.replayed && !plan.removed.is_empty() {
            upkeep::show_plan(store, &plan)?;
            tell_copies(&plan);
            if !upkeep::ask(&format!("Move to profile {profile}?"), "moving")? {
                out::note("nothing was moved");
                return Ok(None);
            }
        }
    }
    request.dry_run = false;
    let mut receipt = store.move_sessions(&to, &request)?;
    upkeep::scrubbed(app, store, &mut receipt)?;
    // A capsule that waits has its files there from now on.
    handoff::reconcile(&handoff::handoffs(&there, &to));
    told(&receipt, "moved", profile, flags.json)?;
    Ok(Some(receipt))
}

fn told(receipt: &DeleteReceipt, word: &str, profile: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(());
    }
    if receipt.removed.is_empty() {
        out::note("no session is to be moved");
    }
    upkeep::list_receipt(receipt, word, "stays here:", |rows, requests| {
        format!(" to profile {profile}: {rows} messages, {requests} requests")
    })?;
    tell_copies(receipt);
    Ok(())
}

/// What is not there as it was here.
fn tell_copies(receipt: &DeleteReceipt) {
    let copies = receipt.moved.iter().flat_map(|moved| &moved.sessions);
    for Copied { id, was_there, title, untied_from, capsule_left } in copies {
        if *was_there {
            out::note(format!("note: {id} is there already; the copy was held against this one"));
        }
        if let Some(title) = title {
            out::note(format!("note: {id} has the title \"{title}\" there; its own is taken"));
        }
        if let Some(parent) = untied_from {
            out::note(format!("note: {id} no longer says that it came from {parent}, which stays"));
        }
        if let Some(capsule) = capsule_left {
            out::note(format!(
                "note: capsule {capsule} of {id} was withdrawn: another one waits there (hint: \
                 hermes -p PROFILE handoff build)"
            ));
        }
    }
}
