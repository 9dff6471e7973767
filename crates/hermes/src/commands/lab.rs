//! `hermes lab`: experiments and their receipts. A finding that differs is a result: the exit code
//! says only whether the experiment could be carried out.

mod exam;

use std::path::Path;

use anyhow::Context as _;
use hermes_lab::recall::{RecallInput, run_recall, svg};
use hermes_lab::{
    Comparison, Receipt, Target, compare, published_receipt, run_compaction, run_context,
};

use crate::cli::{Experiment, Lab, Talk};
use crate::exit::{Exit, Failure};
use crate::out;

/// The word for the published findings in place of a file.
const PUBLISHED: &str = "published";

/// Carries out one of the commands.
///
/// # Errors
/// If the experiment cannot be carried out or a receipt cannot be read.
pub fn run(talk: Talk, command: Lab) -> anyhow::Result<Exit> {
    match command {
        Lab::Run(Experiment::Context { endpoint, key_env, out, json }) => {
            let target = match (endpoint, talk.model) {
                (None, _) => Target::Rehearsal,
                (Some(base_url), Some(model)) => Target::Endpoint { base_url, model, key_env },
                (Some(_), None) => {
                    let text = "an endpoint needs a model; hint: add --model NAME";
                    return Err(Failure::new(Exit::Usage, text).into());
                }
            };
            let receipt = run_context(&target)?;
            receipt.write(&out)?;
            if json {
                out::json(&receipt)?;
            } else {
                out::raw(receipt.to_markdown())?;
            }
            out::note(format!("written: {}/receipt.json and receipt.md", out.display()));
        }
        Lab::Run(Experiment::Compaction { out: folder, json }) => {
            let receipt = run_compaction()?;
            let page = receipt.to_markdown();
            write(&folder, "compaction.json", &serde_json::to_string_pretty(&receipt)?)?;
            write(&folder, "compaction.md", &page)?;
            if json {
                out::json(&receipt)?;
            } else {
                out::raw(page)?;
            }
            out::note(format!("written: {}/compaction.json and compaction.md", folder.display()));
        }
        Lab::Recall(flags) if flags.capsule => return exam::run(talk, &flags),
        Lab::Recall(flags) => {
            let seeds = flags.first_seed..flags.first_seed + flags.seeds;
            let sizes = given_or(flags.messages, &RecallInput::full().sizes);
            let report = run_recall(&RecallInput { seeds, sizes, compactions: flags.compactions })?;
            let (page, folder) = (report.to_markdown(), flags.out);
            write(&folder, "recall.json", &serde_json::to_string_pretty(&report)?)?;
            write(&folder, "recall.md", &page)?;
            write(&folder, "recall.svg", &svg(&report))?;
            if flags.json {
                out::json(&report)?;
            } else {
                out::raw(page)?;
            }
            out::note(format!("written: {}/recall.md, .json and .svg", folder.display()));
        }
        Lab::Compare { a, b, json } => {
            let comparison = compare(&receipt(&a)?, &receipt(&b)?);
            if json { out::json(&comparison)? } else { print(&comparison)? }
        }
    }
    Ok(Exit::Ok)
}

fn receipt(path: &Path) -> anyhow::Result<Receipt> {
    if path == Path::new(PUBLISHED) {
        return Ok(published_receipt());
    }
    let file = if path.is_dir() { path.join("receipt.json") } else { path.to_owned() };
    Ok(Receipt::read(&file)?)
}

fn print(comparison: &Comparison) -> anyhow::Result<()> {
    out::line(format!("a: {}\nb: {}", comparison.a, comparison.b))?;
    if comparison.same {
        return out::line("the receipts are the same");
    }
    let word = |verdict: Option<hermes_lab::FindingVerdict>| {
        verdict.map_or_else(|| "-".to_owned(), |verdict| verdict.word().to_owned())
    };
    let mut rows = Vec::new();
    for (id, a, b) in &comparison.verdicts {
        rows.push(vec![format!("{id} verdict"), word(*a), word(*b)]);
    }
    for (name, a, b) in comparison.facts.iter().chain(&comparison.figures) {
        rows.push(vec![name.clone(), a.clone(), b.clone()]);
    }
    out::table(&["what differs", "a", "b"], rows, "verdicts, facts and figures are the same")
}

/// What was asked for, or all of it.
fn given_or<T: Clone>(given: Vec<T>, all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given }
}

/// Writes one file of an experiment.
fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("{} cannot be written", path.display()))
}
