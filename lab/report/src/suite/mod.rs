//! A benchmark suite as a page, as Markdown, and several suites as a site.

mod headline;
mod markdown;
mod page;
mod site;

pub use headline::suite_headline;
pub use markdown::suite_markdown;
pub use page::suite_page;
pub use site::{Published, suite_site};

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::{
        Suite, SuiteAllocator, SuiteHead, SuiteMeasured, SuiteOutcome, SuiteRun, SuiteWorkload,
    };

    /// Two workloads on two allocators: keel takes 1 s and 2 MB, `a|b` 2 s and 1 MB.
    pub fn suite() -> Suite {
        let workload = |name: &str| SuiteWorkload {
            suite: "synthetic".into(),
            name: name.into(),
            about: "does </script> nothing".into(),
            ..SuiteWorkload::default()
        };
        let allocator =
            |name: &str| SuiteAllocator { name: name.into(), ..SuiteAllocator::default() };
        let run = |round, workload: &str, allocator: &str, elapsed_s, peak_bytes| SuiteRun {
            workload: format!("synthetic/{workload}"),
            allocator: allocator.into(),
            round,
            outcome: SuiteOutcome::Measured(SuiteMeasured {
                elapsed_s,
                cpu_s: elapsed_s,
                peak_bytes,
                ..SuiteMeasured::default()
            }),
            ..SuiteRun::default()
        };
        let mut runs = Vec::new();
        for round in 0..3 {
            for name in ["one", "two"] {
                runs.push(run(round, name, "keel", 1.0, 2_000_000));
                runs.push(run(round, name, "a|b", 2.0, 1_000_000));
            }
        }
        Suite {
            head: SuiteHead {
                workloads: vec![workload("one"), workload("two")],
                allocators: vec![allocator("keel"), allocator("a|b")],
                ..SuiteHead::default()
            },
            runs,
        }
    }

    #[test]
    fn the_headline_names_what_is_lowest_in_every_round() {
        let both = "keel has the lowest elapsed time, and a|b the lowest peak memory.";
        let mut suite = suite();
        assert_eq!(suite_headline(&suite), both);
        if let SuiteOutcome::Measured(measured) = &mut suite.runs[4].outcome {
            measured.elapsed_s = 9.0;
        }
        assert_eq!(
            suite_headline(&suite),
            "a|b has the lowest peak memory; no allocator has the lowest elapsed time in every \
             round."
        );
        suite.runs[..3].iter_mut().for_each(|run| run.interference = vec!["stolen time".into()]);
        let caution = " Other programs or the host disturbed 25 % of the runs.";
        assert!(suite_headline(&suite).ends_with(caution), "{}", suite_headline(&suite));
        suite.runs.iter_mut().for_each(|run| run.interference.clear());
        suite.runs.truncate(8);
        let few = "There are fewer than three rounds: no allocator is named as the lowest.";
        assert_eq!(suite_headline(&suite), few);
        suite.runs[0].outcome = SuiteOutcome::Failed("it was ended by signal 11".into());
        assert_eq!(
            suite_headline(&suite),
            format!("{few} One allocator did not complete every workload.")
        );
    }

    #[test]
    fn the_page_holds_every_run_and_loads_nothing() {
        let html = suite_page(&suite());
        assert!(html.contains("<h1 id=\"headline\">keel has the lowest elapsed time"), "{html}");
        assert!(!html.contains("does </script>") && html.contains("does \\u003c/script>"));
        assert_eq!(html.matches("\"elapsed_s\"").count(), 12);
        assert!(!html.contains("{{"), "a placeholder remains");
        for outside in ["https:", "@import", "url(", "src="] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_markdown_lists_ratios_and_failures() {
        let mut suite = suite();
        suite.runs[0].outcome = SuiteOutcome::Failed("it was ended by signal 11".into());
        let text = suite_markdown(&suite);
        assert!(text.contains("| synthetic/two | **1.00** | 2.00 |"), "{text}");
        assert!(text.contains("| synthetic/one | failed | **1.00** |"), "{text}");
        assert!(text.contains("- synthetic/one on keel, round 1: it was ended by signal 11"));
        assert!(text.contains("a\\|b"), "{text}");
        assert!(
            text.contains("governor: none") && text.contains("No run was disturbed."),
            "{text}"
        );
        suite.runs[1].interference = vec!["stolen time".into()];
        let noise =
            "disturbed 8.3 % of the 12 runs in the results (stolen time in 1). 0 other runs";
        assert!(suite_markdown(&suite).contains(noise), "{}", suite_markdown(&suite));
        let after = "The rows \u{201c}memory 1 s after the end\u{201d} show";
        assert!(!text.contains(after), "{text}");
        for run in &mut suite.runs {
            if let SuiteOutcome::Measured(measured) = &mut run.outcome {
                measured.after_bytes = Some(3 << 20);
            }
        }
        assert!(suite_markdown(&suite).contains(after), "{}", suite_markdown(&suite));
    }

    #[test]
    fn the_site_links_each_published_suite() {
        let entry = Published { folder: "2026-xeon".into(), suite: suite() };
        let html = suite_site(&[entry]);
        assert!(html.contains("href=\"2026-xeon/index.html\""), "{html}");
        assert!(html.contains("1.00"), "{html}");
    }

    #[test]
    fn one_of_a_kind_is_singular() {
        let mut suite = suite();
        suite.head.workloads.truncate(1);
        suite.head.allocators.truncate(1);
        suite.runs.truncate(1);
        let text = suite_markdown(&suite);
        assert!(text.contains("\n\n1 workload, 1 allocator, 1 interleaved round, on "), "{text}");
        let html = suite_site(&[Published { folder: "2026-xeon".into(), suite }]);
        assert!(html.contains("; 1 workload, 1 run. "), "{html}");
    }
}
