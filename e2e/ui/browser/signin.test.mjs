// The page with authentication on.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, shoot, until } from "./page.mjs";

const { PAGE, PAGE_TOKEN } = process.env;
const ann = { username: "ann", password: "secret" };
const basic = `Basic ${Buffer.from("ann:secret").toString("base64")}`;
let browser;
before(async () => {
  browser = await launch();
  const written = await fetch(`${PAGE}write?db=other`, { method: "POST", headers: { Authorization: basic }, body: "elsewhere,host=a value=1" });
  assert.equal(written.status, 204);
});
after(() => browser.close());

test("nothing of it is for nobody", async () => {
  for (const path of ["", "ui/assets/x.js", "ui/api/about", "ui/api/status", "ui/api/queries"]) {
    const answer = await fetch(PAGE + path, { headers: { Accept: "text/html" } });
    assert.equal(answer.status, 401, path);
    assert.match(answer.headers.get("www-authenticate"), /^Basic /);
  }
});

test("the browser's own question lets in, to the databases that may be read", () =>
  // What the default database answers at first is refused.
  open(browser, PAGE, { httpCredentials: ann, errorsExpected: true }, async (page) => {
    await until(page, "the database that may be read is chosen", () => location.hash.includes("db=other"));
    await page.getByRole("button", { name: "elsewhere" }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.goto(`${PAGE}#/cluster`);
    await page.locator(".node").first().waitFor();
  }));

test("the form lets somebody else in, and asks again when that is refused", () =>
  open(browser, `${PAGE}#/explore`, { httpCredentials: ann, errorsExpected: true }, async (page) => {
    const form = page.getByRole("dialog", { name: "Sign in" });
    const user = (name) => page.getByRole("button", { name, exact: true });
    await user("ann").click();
    await shoot(page, "sign-in");
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").first().waitFor();
    await form.waitFor();
    await page.getByLabel("Token").fill(PAGE_TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
    await user("root").waitFor();
    await form.waitFor({ state: "detached" });
    const databases = page.getByRole("combobox", { name: "Database" });
    await until(page, "all databases are there", () => document.querySelectorAll("header option").length === 2);
    await databases.selectOption("other");
    await page.getByRole("button", { name: /^elsewhere/ }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await user("ann").waitFor();
    // With a password it is the same.
    await user("ann").click();
    await page.getByLabel("User").fill("ann");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").first().waitFor();
    await page.getByLabel("User").fill("ann");
    await page.getByLabel("Password").fill("secret");
    await page.getByRole("button", { name: "Sign in" }).click();
    await user("ann").waitFor();
  }));
