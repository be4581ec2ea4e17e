// The page with authentication on.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { barriers, launch, open, shoot, sideways, until } from "./page.mjs";

const { PAGE, VOUCHED, PAGE_TOKEN } = process.env;
const basic = `Basic ${Buffer.from("ann:secret").toString("base64")}`;
let browser;
before(async () => {
  browser = await launch();
  const written = await fetch(`${PAGE}write?db=other`, { method: "POST", headers: { Authorization: basic }, body: "elsewhere,host=a value=1" });
  assert.equal(written.status, 204);
});
after(() => browser.close());

test("nothing of it is for nobody, but a document in which to sign in", async () => {
  for (const path of ["", "ui/assets/x.js", "ui/api/about", "ui/api/status", "ui/api/queries", "metrics"]) {
    const answer = await fetch(PAGE + path, { headers: { Accept: "text/html" } });
    assert.equal(answer.status, 401, path);
    // The browser is to ask by itself only where the page does not.
    assert.equal(answer.headers.get("www-authenticate"), path === "metrics" ? 'Basic realm="TickMesh", charset="UTF-8", Bearer' : "Bearer", path);
    assert.equal((await answer.text()).includes("<form"), path === "", path);
  }
});

/** Before somebody is known requests are refused, which the browser tells of. */
const signedOut = { errorsExpected: true };

for (const [name, options] of [["sign-in", {}], ["sign-in-dark", { dark: true }], ["phone-sign-in", { width: 360, height: 740 }]]) {
  test(`asks who is there, and keeps nobody out: ${name}`, () =>
    open(browser, PAGE, { ...signedOut, ...options }, async (page) => {
      await page.getByLabel("Token").waitFor();
      assert.equal(await sideways(page), 0);
      assert.deepEqual(await barriers(page), []);
      await shoot(page, name);
    }));
}

test("a user with a password is let in, to the databases that may be read, and nobody after signing out", () =>
  open(browser, `${PAGE}#/query?d=opentsdb`, signedOut, async (page) => {
    const button = page.getByRole("button", { name: "Sign in" });
    await page.getByLabel("User").fill("ann");
    await page.getByLabel("Password").fill("wrong");
    await page.keyboard.press("Enter");
    await until(page, "it is said that this is refused", () => document.querySelector("[role=alert]").textContent.includes("does not know"));
    await shoot(page, "sign-in-refused");
    await page.getByLabel("Password").fill("secret");
    await button.click();
    // The address that was asked for is kept, and what the default database answers is refused.
    await until(page, "the database that may be read is chosen", () => location.hash.includes("d=opentsdb") && location.hash.includes("db=other"));
    await page.getByRole("button", { name: "elsewhere" }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.reload();
    await page.getByRole("button", { name: "elsewhere" }).click();
    await page.locator(".legend .name", { hasText: "elsewhere" }).waitFor();
    await page.goto(`${PAGE}#/cluster`);
    await page.getByText("Nodes and shards are shown to users who may read all databases.").waitFor();
    assert.equal(await page.locator(".node").count(), 0);
    await shoot(page, "cluster-restricted");
    await page.getByRole("button", { name: "Sign out" }).click();
    await button.waitFor();
    await page.reload();
    await button.waitFor();
  }));

test("a token is let in, also below a database and by the page's longer path", async () => {
  for (const path of ["", "ui", "ui/", "db/other/"]) {
    await open(browser, `${PAGE}${path}#/explore`, signedOut, async (page) => {
      await page.getByLabel("Token").fill(PAGE_TOKEN);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("button", { name: "root", exact: true }).waitFor();
      const databases = page.getByRole("combobox", { name: "Database" });
      await until(page, "all databases are there", () => document.querySelectorAll("header option").length === 2);
      if (path.startsWith("db/")) {
        assert.equal(await databases.inputValue(), "other");
      } else {
        await databases.selectOption("other");
      }
      await page.getByRole("button", { name: /^elsewhere/ }).waitFor();
    });
  }
});

test("a database that was made is there before its first point", () =>
  open(browser, `${PAGE}#/explore`, signedOut, async (page) => {
    const made = await fetch(`${PAGE}query?q=CREATE+DATABASE+fresh`, { method: "POST", headers: { Authorization: `Bearer ${PAGE_TOKEN}` } });
    assert.equal(made.status, 200);
    await page.getByLabel("Token").fill(PAGE_TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("combobox", { name: "Database" }).selectOption("fresh");
    await page.getByText("This database has no metrics yet").first().waitFor();
  }));

test("who is vouched for by a proxy meets no form, and may be somebody else in the page", () =>
  open(browser, `${VOUCHED}#/explore`, signedOut, async (page) => {
    const form = page.getByRole("dialog", { name: "Sign in" });
    const user = (name) => page.getByRole("button", { name, exact: true });
    await user("ann").click();
    await shoot(page, "sign-in-within");
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").first().waitFor();
    await form.waitFor();
    await page.getByLabel("Token").fill(PAGE_TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
    await user("root").waitFor();
    await form.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Sign out" }).click();
    await user("ann").waitFor();
  }));
