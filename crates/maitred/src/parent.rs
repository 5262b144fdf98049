//! Ending together with the process that started this one, however that ends.

use std::io::Read;

use rustix::process::{Signal, getpid, kill_process};

/// Watches standard input, which the parent holds open, and ends this process at its end. A parent that is killed runs no
/// destructor that could end its children; its end of the pipe closes all the same.
pub(crate) fn end_with_it() {
    std::thread::spawn(|| {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
        // There is nothing to tidy up: the parent's work is over. The signal can be neither caught nor refused.
        if kill_process(getpid(), Signal::KILL).is_err() {
            eprintln!("maitred: cannot end together with its parent");
        }
    });
}
