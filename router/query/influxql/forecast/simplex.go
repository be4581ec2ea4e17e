package forecast

import "math"

// Coefficients and bounds of the search, which are InfluxDB's.
const (
	stepsMax    = 1000
	reflection  = 1.0
	contraction = 0.5
	expansion   = 2.0
	spreadMin   = 1e-4 // of the values at the vertices: below it the search ends
)

// simplex searches the least value of a function of several parameters (Nelder and Mead, A simplex method for function
// minimization, 1965). The function may change the parameters that it is called with: these are the vertex then.
type simplex struct {
	of       func(vertex []float64) float64
	vertices [][]float64
	values   []float64

	middle, reflected, tried []float64
}

func newSimplex(parameters int, of func([]float64) float64) *simplex {
	s := &simplex{of: of, vertices: make([][]float64, parameters+1), values: make([]float64, parameters+1)}
	memory := make([]float64, parameters*(parameters+4))
	next := func() []float64 {
		v := memory[:parameters:parameters]
		memory = memory[parameters:]
		return v
	}
	for i := range s.vertices {
		s.vertices[i] = next()
	}
	s.middle, s.reflected, s.tried = next(), next(), next()
	return s
}

// search returns the least value that was found from a start on, and copies its parameters to best. Each step asks goOn
// first, whose error ends the search.
func (s *simplex) search(start, best []float64, goOn func() error) (least float64, err error) {
	s.begin(start)
	for range stepsMax {
		if err := goOn(); err != nil {
			return 0, err
		}
		s.step()
		if s.spread() < spreadMin {
			break
		}
	}
	least, at := s.values[0], 0
	for i, v := range s.values {
		if v < least {
			least, at = v, i
		}
	}
	copy(best, s.vertices[at])
	return s.of(s.vertices[at]), nil
}

// begin puts the vertices around a start.
func (s *simplex) begin(start []float64) {
	n := float64(len(start))
	near := (math.Sqrt(n+1) - 1) / (n * math.Sqrt2)
	far := (math.Sqrt(n+1) - 1 + n) / (n * math.Sqrt2)
	for i, v := range s.vertices {
		copy(v, start)
		if i == 0 {
			continue
		}
		for j := range v {
			if j == i-1 {
				v[j] = far + start[j]
			} else {
				v[j] = near + start[j]
			}
		}
	}
	for i, v := range s.vertices {
		s.values[i] = s.of(v)
	}
}

// ranked returns the vertices with the largest, the second largest and the least value.
func (s *simplex) ranked() (worst, second, best int) {
	for i, v := range s.values {
		if v > s.values[worst] {
			worst = i
		}
		if v < s.values[best] {
			best = i
		}
	}
	second = best
	for i, v := range s.values {
		if v > s.values[second] && v < s.values[worst] {
			second = i
		}
	}
	return worst, second, best
}

// step replaces the worst vertex by a better one, or draws all vertices towards the best.
func (s *simplex) step() {
	worst, second, best := s.ranked()
	s.center(worst)
	for i, m := range s.middle {
		s.reflected[i] = m + reflection*(m-s.vertices[worst][i])
	}
	v := s.of(s.reflected)
	switch {
	case v < s.values[best]:
		for i, m := range s.middle {
			s.tried[i] = m + expansion*(s.reflected[i]-m)
		}
		if further := s.of(s.tried); further < v {
			s.replace(worst, s.tried, further)
		} else {
			s.replace(worst, s.reflected, v)
		}
		if v < s.values[second] { // else all but the worst are equal
			return
		}
	case v < s.values[second]:
		s.replace(worst, s.reflected, v)
		return
	}
	if v >= s.values[second] {
		s.contract(worst, second, best, v)
	}
}

// contract tries a point between the middle and the worst vertex, or its reflection if that is better.
func (s *simplex) contract(worst, second, best int, reflected float64) {
	for i, m := range s.middle {
		if reflected < s.values[worst] {
			s.tried[i] = m + contraction*(s.reflected[i]-m)
		} else {
			s.tried[i] = m - contraction*(m-s.vertices[worst][i])
		}
	}
	if v := s.of(s.tried); v < s.values[worst] {
		s.replace(worst, s.tried, v)
		return
	}
	for row, vertex := range s.vertices {
		if row == best {
			continue
		}
		for i := range vertex {
			vertex[i] = s.vertices[best][i] + (vertex[i]-s.vertices[best][i])/2
		}
	}
	s.values[worst] = s.of(s.vertices[worst])
	s.values[second] = s.of(s.vertices[second]) // InfluxDB looks at no more of them
}

// center computes the middle of all vertices but one.
func (s *simplex) center(without int) {
	for i := range s.middle {
		sum := 0.0
		for row, vertex := range s.vertices {
			if row != without {
				sum += vertex[i]
			}
		}
		s.middle[i] = sum / float64(len(s.middle))
	}
}

func (s *simplex) replace(row int, vertex []float64, value float64) {
	copy(s.vertices[row], vertex)
	s.values[row] = value
}

// spread returns how far the values at the vertices are apart.
func (s *simplex) spread() float64 {
	n := float64(len(s.middle))
	sum := 0.0
	for _, v := range s.values {
		sum += v
	}
	mean := sum / (n + 1)
	squares := 0.0
	for _, v := range s.values {
		squares += (v - mean) * (v - mean) / n
	}
	return math.Sqrt(squares)
}
