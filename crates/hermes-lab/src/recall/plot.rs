//! Recall against tokens kept, as a picture.

use std::fmt::Write as _;

use super::{OURS, RecallReport};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 6] = ["#0b6e4f", "#8a8a8a", "#c1666b", "#4059ad", "#d4a24c", "#6b4e71"];

/// Lines across a picture from `left` to `right` at every fifth of 100 %, named in front of them; `y`
/// gives a percentage its height.
pub(crate) fn percent_lines(out: &mut String, left: f64, right: f64, y: impl Fn(f64) -> f64) {
    for percent in [0.0, 20.0, 40.0, 60.0, 80.0, 100.0] {
        let at = y(percent);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right:.1}\" y2=\"{at:.1}\" \
             stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            left - 6.0,
            at + 4.0
        );
    }
}

/// The plot of a report, an SVG document: each point is one way at one size and number of
/// compactions; the share of facts in the kept text against the tokens kept.
pub fn svg(report: &RecallReport) -> String {
    let most = report.scores.iter().map(|score| score.tokens).max().unwrap_or(1).max(1) as f64;
    let x = |tokens: u64| LEFT + (WIDTH - LEFT - 20.0) * (tokens as f64 / (most * 1.05));
    let y = |percent: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 40.0) * percent / 100.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">Facts \
         in the next request against tokens kept</text>\n"
    );
    percent_lines(&mut out, LEFT, WIDTH - 20.0, y);
    for step in 0_u32..=5 {
        let tokens = (most * f64::from(step) / 5.0) as u64;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tokens}</text>",
            x(tokens),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let mut ways: Vec<&str> = Vec::new();
    for score in &report.scores {
        if !ways.contains(&score.way.as_str()) {
            ways.push(&score.way);
        }
    }
    for (number, way) in ways.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let radius = if *way == OURS { 5.0 } else { 3.5 };
        for score in report.scores.iter().filter(|score| score.way == *way) {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{colour}\"><title>{}, {} \
                 messages, {} compactions: {:.1} %, {} tokens</title></circle>",
                x(score.tokens),
                y(score.kept.percent()),
                escaped(way),
                score.messages,
                score.compactions,
                score.kept.percent(),
                score.tokens
            );
        }
        let at = 36.0 + 16.0 * number as f64;
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{colour}\"/><text x=\"{:.1}\" \
             y=\"{at:.1}\">{}</text>",
            WIDTH - 250.0,
            at - 4.0,
            WIDTH - 240.0,
            escaped(way)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
