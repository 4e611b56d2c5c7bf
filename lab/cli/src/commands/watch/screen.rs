//! The terminal of a view: lines that are drawn over each other, and keys that arrive at once.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// The terminal while it shows the view. Its former state returns when this is dropped.
pub struct Screen {
    before: libc::termios,
    is_over: Arc<AtomicBool>,
    keys: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal of the standard input and output. The keys q and Ctrl-C set `stop`.
    ///
    /// # Errors
    /// One of them is no terminal.
    pub fn take(stop: Arc<AtomicBool>) -> io::Result<Screen> {
        let mut before = MaybeUninit::uninit();
        // SAFETY: tcgetattr fills in the structure if it succeeds.
        let before = unsafe {
            if libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            before.assume_init()
        };
        let mut raw = before;
        raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        set(&raw)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let keys = std::thread::spawn(move || read_keys(&stop, &over));
        let screen = Screen { before, is_over, keys: Some(keys) };
        // The other screen; no cursor.
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// Draws the lines, cut to the size of the terminal.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        let (rows, columns) = size();
        let mut text = "\x1b[H".to_owned();
        for line in lines.iter().take(rows.saturating_sub(1)) {
            text.extend(line.chars().filter(|one| !one.is_control()).take(columns));
            text += "\x1b[K\r\n";
        }
        text += "\x1b[J";
        text.extend("q: end; the program continues".chars().take(columns));
        write(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        drop(self.keys.take().map(JoinHandle::join));
        drop(write("\x1b[?25h\x1b[?1049l"));
        drop(set(&self.before));
    }
}

fn set(state: &libc::termios) -> io::Result<()> {
    // SAFETY: the structure is valid.
    match unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, state) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Rows and columns.
fn size() -> (usize, usize) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call fills in the structure.
    unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    match (size.ws_row, size.ws_col) {
        (0, _) | (_, 0) => (24, 80),
        (rows, columns) => (rows.into(), columns.into()),
    }
}

fn read_keys(stop: &AtomicBool, is_over: &AtomicBool) {
    const LOOK_MS: libc::c_int = 100;
    const CTRL_C: u8 = 3;
    while !is_over.load(Relaxed) {
        let mut poll = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        let mut key = 0u8;
        // SAFETY: one valid structure, and one byte.
        let got = unsafe {
            if libc::poll(&raw mut poll, 1, LOOK_MS) <= 0 {
                continue;
            }
            libc::read(libc::STDIN_FILENO, (&raw mut key).cast(), 1)
        };
        // A terminal that was closed ends the view as well.
        if got <= 0 || matches!(key, b'q' | b'Q' | CTRL_C) {
            stop.store(true, Relaxed);
            return;
        }
    }
}
