// Package http1 checks that what a client sends is HTTP/1.1 as RFC 9112 has it, byte for byte,
// before a parser sees it. The parsers behind it (fasthttp for points, net/http for all else) are
// lenient where the RFC lets nobody be: both take Content-Length beside Transfer-Encoding, folded
// lines and bare line feeds; fasthttp also takes any version, and the end of a connection for the
// end of a body. Two servers that
// frame the same bytes differently are how requests are smuggled past the first one; a body
// that is cut short and taken for whole is how half a number is stored.
//
// A Checker follows the messages of one connection. It keeps no byte of them but a line that
// has not ended, and hands bytes on as they are, except for trailers: they are checked and
// left out, since a field that comes behind the body must not change who calls or which
// database is meant (RFC 9110, 6.5.1).
//
// It depends on no connection, no parser and no handler.
package http1
