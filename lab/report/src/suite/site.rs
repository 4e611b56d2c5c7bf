//! A static site of several suites: the page with the list.

use super::headline::suite_headline;
use super::page::{filled, style};
use crate::words::escape_markup as escape;
use keel_results::text::counted;
use keel_results::{Suite, SuiteMetric};
use std::fmt::Write as _;

const HTML: &str = include_str!("../../suite/site.html");

/// The columns.
const SITE_METRICS: [SuiteMetric; 5] = [
    SuiteMetric::Elapsed,
    SuiteMetric::Cpu,
    SuiteMetric::Peak,
    SuiteMetric::Average,
    SuiteMetric::P999,
];

/// A suite in a folder of the site.
#[derive(Clone, Debug)]
pub struct Published {
    /// The folder's name, which holds the page as `index.html`.
    pub folder: String,
    /// The suite.
    pub suite: Suite,
}

/// The page that lists the suites of a site, newest first, with the means of each.
pub fn suite_site(suites: &[Published]) -> String {
    let mut sorted: Vec<&Published> = suites.iter().collect();
    sorted.sort_by(|one, other| other.suite.head.started.cmp(&one.suite.head.started));
    filled(HTML, &|name| match name {
        "style" => style(),
        "count" => match suites.len() {
            1 => "one result".to_owned(),
            count => format!("{count} results"),
        },
        _ => sorted.iter().map(|one| entry(one)).collect(),
    })
}

fn entry(published: &Published) -> String {
    let Published { folder, suite } = published;
    let (head, folder) = (&suite.head, escape(folder));
    let machine = &head.machine;
    let mut text = format!(
        "<section><h2><a href=\"{folder}/index.html\">{}, {}, {}</a></h2>\n<p class=\"note\">{}; \
         {}, {}{}. {}</p>\n<div class=\"scroll\"><table \
         class=\"means\"><thead><tr><th scope=\"col\">allocator</th>",
        escape(&machine.cpu),
        match machine.cpus {
            1 => "one processor".to_owned(),
            count => format!("{count} processors"),
        },
        escape(head.started.split('T').next().unwrap_or_default()),
        escape(&machine.kernel),
        counted(head.workloads.len() as u64, "workload"),
        counted(suite.runs.len() as u64, "run"),
        if head.quick { ", short form" } else { "" },
        escape(&suite_headline(suite)),
    );
    for metric in SITE_METRICS {
        let _ = write!(text, "<th scope=\"col\">{}</th>", metric.title());
    }
    text.push_str("</tr></thead><tbody>");
    let columns = SITE_METRICS.map(|metric| {
        let all = suite.measured_workloads("", metric);
        let means = suite.means("", metric);
        let complete = means.iter().filter(|(_, count)| *count == all).filter_map(|one| one.0);
        let least = complete.fold(f64::INFINITY, f64::min);
        (means, all, least)
    });
    for (index, allocator) in head.allocators.iter().enumerate() {
        let _ = write!(
            text,
            "<tr><th scope=\"row\" title=\"{}\">{}</th>",
            escape(&allocator.version),
            escape(&allocator.name)
        );
        for (means, all, least) in &columns {
            let (mean, count) = means[index];
            let mean = match mean {
                None => "–".to_owned(),
                Some(mean) if count == *all && mean <= *least => format!("<b>{mean:.2} ×</b>"),
                Some(mean) => format!("{mean:.2} ×"),
            };
            let part = match count < *all {
                true => format!(" <small>of {count}/{all}</small>"),
                false => String::new(),
            };
            let _ = write!(text, "<td>{mean}{part}</td>");
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div></section>\n");
    text
}
