//! The figures of an exam as a picture: for each policy and length one group of bars.

use std::fmt::Write as _;

use super::report::{Arm, ExamReport, PUBLISHED};
use crate::recall::plot::percent_lines;

const BAR: f64 = 16.0;
const GAP: f64 = 36.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 76.0;
const PLOT: f64 = 280.0;
const ARMS: [(Arm, &str); 4] = [
    (Arm::Capsule, "#0b6e4f"),
    (Arm::CapsuleAndSearch, "#5fae8f"),
    (Arm::SearchAlone, "#d4a24c"),
    (Arm::Nothing, "#8a8a8a"),
];

/// The plot of a report, an SVG document. Dashed: what was published of real sessions.
pub fn svg(report: &ExamReport) -> String {
    let mut groups = Vec::new();
    for policy in report.policies() {
        for group in report.groups() {
            groups.push((policy, group));
        }
    }
    let group_width = BAR * ARMS.len() as f64 + GAP;
    let width = (LEFT + group_width * groups.len() as f64 + 190.0).max(720.0);
    let height = TOP + PLOT + 80.0;
    let y = |percent: f64| TOP + PLOT * (1.0 - percent / 100.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" \
         fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"14\">Recall exam: questions \
         answered about a session that was handed over</text>\n"
    );
    let mut x = LEFT;
    for (arm, colour) in ARMS {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"34\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text \
             x=\"{}\" y=\"44\">{}</text>",
            x + 16.0,
            arm.as_str()
        );
        x += 40.0 + 7.2 * arm.as_str().len() as f64;
    }
    percent_lines(&mut out, LEFT, width - 20.0, y);
    for (number, (policy, group)) in groups.iter().enumerate() {
        let from = LEFT + GAP / 2.0 + group_width * number as f64;
        for (place, (arm, colour)) in ARMS.into_iter().enumerate() {
            let Some(share) = report.share(*policy, Some(group), arm) else { continue };
            let percent = share.percent();
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{:.1}\" fill=\"{colour}\"><title>\
                 {}, {}, {}: {percent:.1} % of {}</title></rect><text x=\"{:.1}\" y=\"{:.1}\" \
                 font-size=\"9\" text-anchor=\"middle\">{percent:.0}</text>",
                from + BAR * place as f64,
                y(percent),
                BAR - 2.0,
                PLOT * percent / 100.0,
                policy.as_str(),
                escaped(group),
                arm.as_str(),
                share.of,
                from + BAR * (place as f64 + 0.5) - 1.0,
                y(percent) - 3.0,
            );
        }
        let middle = from + BAR * ARMS.len() as f64 / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text \
             x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            TOP + PLOT + 18.0,
            escaped(&short(group)),
            TOP + PLOT + 34.0,
            policy.as_str()
        );
    }
    let [(_, unaided, searched), _] = PUBLISHED;
    for (percent, colour, what) in [
        (unaided, "#0b6e4f", "published, capsule alone"),
        (searched, "#5fae8f", "published, one search"),
    ] {
        let at = y(percent);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\" \
             stroke-dasharray=\"5 4\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" \
             text-anchor=\"end\" fill=\"{colour}\">{what} {percent} %</text>",
            width - 20.0,
            width - 22.0,
            at - 4.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.1}\" fill=\"#555\">{}</text>\n<text x=\"{LEFT}\" y=\"{:.1}\" \
         fill=\"#555\">The published figures (dashed) are of seven real sessions, answered by a \
         model: another measure.</text>",
        TOP + PLOT + 54.0,
        escaped(&report.answered),
        TOP + PLOT + 70.0
    );
    out.push_str("</svg>\n");
    out
}

/// A long id is shown by its end.
fn short(group: &str) -> String {
    let count = group.chars().count();
    if group.parse::<usize>().is_ok() {
        return format!("{group} messages");
    }
    if count <= 12 {
        return group.to_owned();
    }
    format!("…{}", group.chars().skip(count - 10).collect::<String>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
