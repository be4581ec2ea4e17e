// Package ui has the tests of the page in a real browser: a headless Chromium of Debian,
// driven by playwright-core (browser/), against servers that run as processes of their own.
//
// The site of documents (make site) is opened page by page, too.
//
// The tests of Go start the servers, write points, and kill a node when the browser's tests
// ask for it; what is seen is checked in browser/*.test.mjs. Screenshots of every view are
// kept in .cache/page-screenshots, for people to look at.
//
// Chromium, Node.js and npm are installed by the tests if that can be; where they cannot be
// had, the tests are skipped and say so.
package ui
