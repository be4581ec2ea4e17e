// Package forecast continues a series by the method of Holt and Winters with a damped trend, as InfluxDB's HOLT_WINTERS
// does: the same guesses, the same search for the least error (Nelder and Mead's simplex), and the same recursions, as
// the parameters that a search of a bounded number of steps ends with depend on each of its steps. It knows nothing of
// queries.
package forecast
