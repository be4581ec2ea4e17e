// Package continuous keeps InfluxQL's continuous queries and runs them: a Set makes, drops and lists them
// in a Store, which is a file of a data folder (Folder) or the placement store of a cluster (Cluster), and a Service
// runs those of its Set while it is elected.
//
// When a query runs, and over which windows, is as in InfluxDB 1.8 (services/continuous_querier/service.go
// there), but for these things. The first run of a process also covers what was due within the last hour, and at
// least the last window, so that nothing is missing when a router or the server was started again. A run that fails is
// tried again until it is an hour late, and covers less each time, as what was missed may be more than a query may read at once.
// No window is left out where EVERY is not a multiple of the interval or clocks are changed. Windows of which samples are
// deleted by now are not written. And queries run beside each other, a few at a time. Windows that are written
// twice are the same samples, so that neither does harm.
//
// How a SELECT is answered, and how its rows are written, is the Runner's part.
package continuous
