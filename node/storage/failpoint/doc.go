// Package failpoint names places where a test can make a process fail
// or die. A component gets a *Set in its options and calls Hit at such places; a
// nil *Set, which is what runs outside tests, does nothing. Every package lists
// its names as constants and in a function Failpoints, so that a Set is checked
// against the catalogue of all of them.
package failpoint
