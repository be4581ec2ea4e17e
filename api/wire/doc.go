// Package wire turns the values of api/series and api/scan into the messages of
// proto/ and back. Both sides of a connection use it: routers as clients of nodes,
// nodes as servers, and the public API's server and client. What comes from a
// message is checked; what is wrong is ErrInvalid, series.ErrBatch or series.ErrKey.
package wire
