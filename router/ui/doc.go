// Package ui serves the page that people look at: at / for browsers, with its files
// below /ui/assets/ and what only it needs as JSON below /ui/api/. Queries go to the
// front ends of the dialects, as those of every other client.
//
//	h, err := ui.New(ui.Options{Source: …, Status: cluster.Status, Admission: …, Gatherer: registry})
//
// The page itself is in web/ (TypeScript), and built into dist/, which is embedded: no
// Node.js is needed to build the program. All its addresses are relative, so that it works
// below any prefix of a path, also below /db/NAME/, where it shows that database.
//
// Who is not known gets nothing of it but SignInPage, a form in a document of its own. Watch keeps
// the last minutes of rates, so that a page that is opened has something to draw.
//
// It loads nothing from elsewhere: its Content-Security-Policy says so to the browser. Who
// may see what is as everywhere: names and counts of a database, and texts of its queries, need
// its read right, to cancel a query needs the admin right on its database, and the page and the
// state of the cluster are for every user.
package ui
