// Package clients runs unmodified clients against a started server: Telegraf, compiled
// from its own module in the folder telegraf, with each of its outputs that TickMesh
// serves; and the commands that the pages of query languages and of ingest tell people to
// type. What is written by one client is read in every query language.
package clients
