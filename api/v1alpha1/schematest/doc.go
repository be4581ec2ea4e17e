// Package schematest does with a resource what an API server does before it keeps it:
// drop unknown fields, fill in defaults, and check schema, list keys and CEL rules, all
// by the generated definitions and the API server's own code. Tests see by it what a
// person would be told, without an API server.
package schematest
