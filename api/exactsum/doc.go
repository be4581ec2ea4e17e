// Package exactsum adds float64s exactly and rounds once, so that a sum does not depend on the
// order of its values, nor on how they were spread over parts that were added first: what nodes
// have added, routers merge, and the bits are those of one server.
//
// A Sum is a superaccumulator: an integer in two's complement that counts units of 2^-1074, of
// which every finite float64 is a multiple (R. Neal, "Fast exact summation using small and large
// superaccumulators", 2015). Most sums need a part of it alone: values whose magnitudes lie in
// [2^-62, 2^66) stay in 256 bits, and only a value beyond makes the sum take the whole, of 2,176.
package exactsum
