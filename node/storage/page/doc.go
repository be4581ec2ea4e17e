// Package page holds the newest samples of one shard's series in memory: a head
// of 32 bytes for each series and small pages of 32, 64 or 128 bytes in slabs.
// There is no Go pointer per series.
//
// A sample that is not older than its series' last goes to the main page, an
// older one to the out-of-order page. Full pages, and those that a checkpoint
// asks for, are sealed: handed to a Sealer, which makes them durable.
//
// Rules that readers rely on:
//
//   - P1. A sample of the out-of-order page is a later write than any sample of
//     the same series and time in the main page, or sealed before it.
//   - P2. The out-of-order page is never sealed before the main page's samples
//     are. So the order of sealing is the order of writing wherever two samples
//     have the same time.
//   - P3. When sealing fails, nothing has changed.
package page
