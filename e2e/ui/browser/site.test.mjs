// The site of documents, as make site builds it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, shoot, sideways } from "./page.mjs";

/** Pages that people see first: these in the dark, too, and as pictures. */
const shown = ["index.html", "tutorial.html", "how-it-works.html", "comparison.html"];
const { SITE, SITE_PAGES } = process.env;
const pages = SITE_PAGES.split(" ").filter((path) => path !== "search.html"); // which shows nothing before it is asked
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

for (const [name, options] of [["site", { width: 1400 }], ["site-dark", { width: 1400, dark: true }], ["site-phone", { width: 390, height: 844 }]]) {
  test(`every page is whole, loads nothing from elsewhere, and scrolls down only: ${name}`, async () => {
    assert.ok(pages.length > 40, `${pages.length} pages`);
    for (const path of options.dark ? shown : pages) {
      await open(browser, SITE + path, options, async (page) => {
        assert.equal(await sideways(page), 0, path);
        assert.equal(await page.locator("h1").first().isVisible(), true, path);
        if (shown.includes(path)) {
          await shoot(page, `${name}-${path.replace(".html", "")}`);
        }
      });
    }
  });
}

test("the search finds a word of a page", () =>
  open(browser, `${SITE}search.html?q=witness`, { width: 1400 }, async (page) => {
    await page.locator("#search-results a", { hasText: "How it works" }).first().click();
    await page.getByRole("heading", { name: "How it works" }).waitFor();
  }));
