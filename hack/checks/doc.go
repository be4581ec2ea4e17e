// Package checks holds rules about the source of this module, as tests: which
// package may import which, how long files and functions get, how many files of a
// package call each other in one knot, what is not to be found anywhere. A rule
// that must be broken somewhere lists the place with its reason.
package checks
