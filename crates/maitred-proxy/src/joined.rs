//! Writing small pieces together.
//!
//! A head with its body, or a chunk with its size before and its end after it, is a few hundred bytes in three places. To copy
//! them side by side costs less than the kernel's way of gathering them.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Pieces up to this many bytes in all are copied together.
const JOINED_MAX: usize = 4 << 10;

thread_local! {
    /// Where they are copied to. Nothing stays in it from one write to the next.
    static JOINED: RefCell<[u8; JOINED_MAX]> = const { RefCell::new([0; JOINED_MAX]) };
}

/// Writes what it can of `slices`, in order, and says how many bytes that were.
pub(crate) fn poll_write_joined<T: AsyncWrite>(
    socket: Pin<&mut T>,
    cx: &mut Context<'_>,
    slices: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    match slices {
        [only] => socket.poll_write(cx, only),
        small if small.iter().map(|slice| slice.len()).sum::<usize>() <= JOINED_MAX => {
            JOINED.with_borrow_mut(|joined| {
                let mut length = 0;
                for slice in small {
                    if let Some(place) = joined.get_mut(length..length + slice.len()) {
                        place.copy_from_slice(slice);
                        length += slice.len();
                    }
                }
                socket.poll_write(cx, joined.get(..length).unwrap_or_default())
            })
        }
        large => socket.poll_write_vectored(cx, large),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn pieces_arrive_in_order_whatever_their_size() {
        for size in [0, 1, 7, JOINED_MAX / 3, JOINED_MAX, 3 * JOINED_MAX] {
            let parts = [vec![b'a'; size], vec![b'b'; 5], Vec::new(), vec![b'c'; size]];
            let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let (mut near, mut far) = duplex(64 << 10);
            let mut written = poll_fn(|cx| poll_write_joined(Pin::new(&mut near), cx, &slices))
                .await
                .unwrap();
            drop(near);
            let mut read = Vec::new();
            far.read_to_end(&mut read).await.unwrap();
            assert_eq!(read.len(), written, "{size}");
            let all = parts.concat();
            // A socket may take less than all, but never anything else.
            written = written.min(all.len());
            assert!(written > 0 && read == all[..written], "{size}");
        }
    }
}
