//! One file for each subcommand: its arguments, and `run`, which lists its steps. Those that record
//! or replay need Linux; on other systems `elsewhere` stands for them.

#[cfg(target_os = "linux")]
pub mod allocators;
#[cfg(target_os = "linux")]
pub mod attach;
#[cfg(target_os = "linux")]
pub mod bench;
pub mod blame;
pub mod capture;
pub mod check;
#[cfg(target_os = "linux")]
pub mod compare;
pub mod completions;
pub mod diff;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod export;
pub mod import;
pub mod info;
pub mod manual;
pub mod plot;
#[cfg(target_os = "linux")]
pub mod record;
pub mod report;
pub mod slice;
#[cfg(target_os = "linux")]
pub mod time;
#[cfg(target_os = "linux")]
pub mod r#try;
#[cfg(target_os = "linux")]
pub mod watch;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;
