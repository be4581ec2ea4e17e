// Package codec holds the two encodings of samples: the page codec, to which a
// series appends one sample at a time, and the block codec, which packs a
// thousand or more samples of one series for good. All functions are pure: they
// read and write the caller's memory, keep nothing and read no clock.
// FORMAT.md beside this file has the byte layouts.
//
// A value travels as a series.Number. What both codecs keep is its float64, bit
// for bit; a decimal may come back with another mantissa and scale that stand
// for the same float64.
package codec
