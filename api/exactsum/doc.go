// Package exactsum adds float64s exactly and rounds once, so that a sum does not depend on the
// order of its values, nor on how they were spread over parts that were added first: what nodes
// have added, routers merge, and the bits are those of one server.
//
// Most sums need no more bits than two float64s have: the rounded sum of what came, and what was
// rounded off (T. Dekker and D. Knuth; J. Shewchuk, "Adaptive precision floating-point arithmetic", 1997).
// Where something is left of that, the sum becomes a superaccumulator: an integer in two's
// complement that counts units of 2^-1074, of which every finite float64 is a multiple (R. Neal,
// "Fast exact summation using small and large superaccumulators", 2015).
package exactsum
