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
  open(browser, PAGE, { httpCredentials: ann }, async (page) => {
    await until(page, "the database that may be read is chosen", () => location.hash.includes("db=other"));
    await page.getByText("This database has no metrics yet").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.goto(`${PAGE}#/cluster`);
    await page.locator(".node").first().waitFor();
  }));

for (const [name, fill] of [
  ["password", async (page) => {
    await page.getByLabel("User").fill(ann.username);
    await page.getByLabel("Password").fill(ann.password);
  }],
  ["token", (page) => page.getByLabel("Token").fill(PAGE_TOKEN)],
]) {
  test(`the form takes a ${name} when the page is there and its requests are refused`, () =>
    open(browser, "about:blank", { errorsExpected: true, elsewhere: true }, async (page) => {
      // The page comes from the browser's store, or by another way: only its requests are asked.
      await page.route(/\/(ui\/assets\/.*)?$/, (route) => route.continue({ headers: { ...route.request().headers(), authorization: basic } }));
      await page.goto(PAGE);
      await page.getByRole("dialog", { name: "Sign in" }).waitFor();
      await shoot(page, "sign-in");
      await fill(page);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("This database has no metrics yet").waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("dialog", { name: "Sign in" }).waitFor();
    }));
}
