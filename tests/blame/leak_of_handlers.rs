// culprit: register_handler by kept
//! Handlers are registered with Box::leak, again in every round.

type Handler = Box<dyn Fn(usize) -> usize + Sync>;

#[inline(never)]
fn register_handler(round: usize) -> &'static Handler {
    let state = vec![round; 50];
    let handler: Handler = Box::new(move |value| state[value % 50]);
    Box::leak(Box::new(handler))
}

fn main() {
    let mut sum = 0;
    for round in 0..2000 {
        let handler = register_handler(round);
        let text = format!("round {round}");
        sum += handler(text.len());
    }
    println!("{sum}");
}
