package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../.."

func TestMapLinks(t *testing.T) {
	for page, want := range map[string]string{
		"[a](b)":                          "[a](<b>)",
		"![a](b.png) and\n[c](d#e \"f\")": "![a](<b.png>) and\n[c](<d#e> \"f\")",
		"[`a`](b)":                        "[`a`](<b>)",
		"`[a](b)`":                        "`[a](b)`",
		"``[a](b)` ``[c](d)":              "``[a](b)` ``[c](<d>)",
		"a ` [a](b)\n\nc ` d":             "a ` [a](<b>)\n\nc ` d",
		"`a\nb [a](b)`":                   "`a\nb [a](b)`",
		"```\n[a](b)\n```\n[c](d)":        "```\n[a](b)\n```\n[c](<d>)",
		"  ```sh\n[a](b)\n  ```\n":        "  ```sh\n[a](b)\n  ```\n",
		"m[](x) a] (b) [c]( d) [e](f":     "m[](<x>) a] (b) [c]( d) [e](f",
	} {
		if got := mapLinks(page, func(target string) string { return "<" + target + ">" }); got != want {
			t.Errorf("%q\ngives %q\nwant  %q", page, got, want)
		}
	}
}

func TestAnchorsOf(t *testing.T) {
	anchors := anchorsOf("# A page\n## Two, `three` & four\n```sh\n# no\n```\n## Again\n### Again\n# Über [all](x.md) #\n#none\n")
	for _, want := range []string{"a-page", "two-three--four", "again", "again-1", "über-all"} {
		if !anchors[want] {
			t.Errorf("no %s in %v", want, anchors)
		}
	}
	if len(anchors) != 5 {
		t.Errorf("%v", anchors)
	}
}

// documents returns the paths of all pages that git knows or does not ignore.
func documents(t *testing.T) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	list.Dir = repository
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Fields(string(out))
	if len(files) < 40 {
		t.Fatalf("found only %d pages", len(files))
	}
	return files
}

// Links of all pages of the repository lead to files, folders and headings that are there.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		mapLinks(string(text), func(target string) string {
			if to, anchor := resolve(file, target); to != "" {
				if err := check(repository, to, anchor); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
			return target
		})
	}
}

// The index leaves out no page.
func TestIndexIsWhole(t *testing.T) {
	x, err := openIndex(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range documents(t) {
		if x.pages[file] == nil {
			t.Errorf("%s is not in %s", file, indexFile)
		}
	}
}

func TestStage(t *testing.T) {
	x, err := openIndex(repository)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "pages")
	if err := x.stage(folder); err != nil {
		t.Fatal(err)
	}
	home, err := os.ReadFile(filepath.Join(folder, "index.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"](promql.md)", "](guide.md#a-cluster)", x.Source + "/tree/main/e2e/cmd/bench)", x.Source + "/blob/main/LICENSE)", "\nGuide <guide>\n"} {
		if !strings.Contains(string(home), want) {
			t.Errorf("no %s in\n%s", want, home)
		}
	}
	for _, want := range append([]string{"screenshot.png"}, x.pictures...) {
		if _, err := os.Stat(filepath.Join(folder, path.Base(want))); err != nil {
			t.Error(err)
		}
	}
}

func TestStageFindsDeadLinks(t *testing.T) {
	x := &index{root: repository, pages: map[string]*page{}}
	for text, wrong := range map[string]string{
		"[a](none.md)": "none.md", "[a](../../README.md#nowhere)": "#nowhere", "![a](none.svg)": "none.svg", "[a](#b)": "hack/site/a.md",
		"[a](../../README.md#quick-start) [b](../checks) [c](../../router/mqtt#mqtt)": "",
	} {
		_, err := x.staged(&page{File: "hack/site/a.md", Name: "a", text: text})
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCheckSite(t *testing.T) {
	for content, wrong := range map[string]string{
		`<h1 id="a">A</h1><a href="#a">a</a> <a href="sub/b.html#b">b</a> <a href="https://elsewhere/">c</a><img src="data:image/png;base64,AA">`: "",
		`<a href="#b">`:                                    "#b",
		`<a href="none.html">`:                             "none.html",
		`<a href="sub/b.html#c">`:                          "sub/b.html#c",
		`<img src="none.png">`:                             "none.png",
		`<script src="https://elsewhere/a.js"></script>`:   "elsewhere",
		`<link rel="stylesheet" href="//elsewhere/a.css">`: "elsewhere",
		`<iframe src="http://elsewhere/"></iframe>`:        "elsewhere",
	} {
		folder := t.TempDir()
		write(t, folder, "index.html", content)
		write(t, folder, "sub/b.html", `<p id="b"></p><a href="../index.html">up</a>`)
		write(t, folder, "a.css", `a { background: url("a.png") }`)
		err := checkSite(folder)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v", content, err)
		}
	}
	folder := t.TempDir()
	if err := checkSite(folder); err == nil {
		t.Error("an empty site is taken")
	}
	write(t, folder, "index.html", "")
	write(t, folder, "a.css", `@import "https://elsewhere/b.css"; a { src: url(//elsewhere/font.woff2) }`)
	if err := checkSite(folder); err == nil || strings.Count(err.Error(), "elsewhere/") != 2 {
		t.Errorf("%v", err)
	}
}

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzMapLinks(f *testing.F) {
	f.Add("[a](b) `c` ```\n[d](e)\n``` [f](g")
	f.Add("```` ` ](")
	f.Fuzz(func(t *testing.T, page string) {
		if got := mapLinks(page, func(target string) string { return target }); got != page {
			t.Errorf("%q gives %q", page, got)
		}
		anchorsOf(page)
	})
}
