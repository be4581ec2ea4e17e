// Package crash kills a server again and again while many connections write to
// it, and checks after each restart that the server kept its word:
//
//   - every acknowledged sample is there, once, with its value;
//   - nothing that was never sent is there;
//   - what was overwritten or deleted, and acknowledged, does not come back.
//
// A value is a function of the series, the time and the number of the write to
// them, so that an answer can be traced to the write that it comes from, and
// anything else is recognised as made up. A write that was cut off by a kill may
// have been applied or not, sample by sample; what the first check after it sees
// is from then on binding, too.
//
// The server is killed at random moments, at named failpoints, while it starts,
// and sometimes it is stopped cleanly. Series, times, writes and kills are drawn
// from a seed. The interleaving of connections, and with it the exact moment of a
// kill, still depends on the machine.
package crash
