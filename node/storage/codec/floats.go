package codec

import (
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/tickmesh/tickmesh/api/series"
)

// fusedMultiply is true if math.FMA is an instruction of this processor.
//
//nolint:gochecknoglobals // a constant that the processor sets
var fusedMultiply = cpu.X86.HasFMA || runtime.GOARCH == "arm64"

// asInts returns the same memory as int64, so that mantissas can be decoded where
// their float64 will be.
func asInts(values []float64) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(values))), len(values))
}

// toFloats replaces mantissas (see asInts) by their float64.
func toFloats(values []float64, scale uint8) {
	mantissas := asInts(values)
	switch {
	case scale == 0:
		for i := range values {
			values[i] = float64(mantissas[i])
		}
	case scale > series.ScaleMax:
	case fusedMultiply:
		divideFused(values, scale)
	default:
		divide(values, scale)
	}
}

func divide(values []float64, scale uint8) {
	mantissas := asInts(values)
	power := float64(integerPowers[scale&series.ScaleMax]) // exact
	for i := range values {
		values[i] = float64(mantissas[i]) / power
	}
}

// divideFused is divide by multiplication with the inverse and one correction,
// which takes a third of the time, and returns the same bits for all mantissas m,
// |m| ≤ 2^53, and powers p = 10^k, 1 ≤ k ≤ 15:
//
// With y = RN(1/p) and q = RN(m·y), q is within 2 ulp of m/p. So e = m − q·p is a
// multiple of 2^k·ulp(q) and at most 2·5^k of those, below 2^37: FMA computes it
// exactly. q + e·y differs from q + e/p = m/p by no more than 2^-52 ulp, and m/p
// is never that near to a midpoint of two float64, where rounding would differ:
// it is no midpoint, as the odd part of m would need more than 53 bits, and its
// distance to one is a multiple of ulp/(2·5^k) > 2^-36 ulp. (Markstein,
// "Computation of Elementary Functions on the IBM RISC System/6000 Processor",
// 1990, has the method.)
func divideFused(values []float64, scale uint8) {
	mantissas := asInts(values)
	power := float64(integerPowers[scale&series.ScaleMax]) // exact
	inverse := 1 / power
	for i := range values {
		m := float64(mantissas[i])
		q := float64(m * inverse) // the conversion forbids to fuse it with what follows
		values[i] = math.FMA(math.FMA(-q, power, m), inverse, q)
	}
}
