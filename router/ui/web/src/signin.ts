/**
 * The document that is all that anybody gets who is not known: a form, and the way from it to the page. The page's own
 * files want to know who asks, too, so they are asked for with the header that the form gives, and put into this
 * document. Its Content-Security-Policy names them by their content.
 */
import "./style/base.css";
import "./style/controls.css";
import "./style/signin.css";
import { authorizationOf, keepAuthorization, readAuthorization } from "./data/credentials";
import { readTheme } from "./data/kept";

const theme = readTheme();
const dark = theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
document.documentElement.dataset.theme = dark ? "dark" : "light";

/** get asks for a text as somebody. Errors: those of fetch, and what the server says. */
async function get(
  address: string,
  accept: string,
  authorization: string,
): Promise<{ text: string; response: Response }> {
  const response = await fetch(address, {
    headers: { Accept: accept, Authorization: authorization },
    credentials: "omit",
  });
  if (response.status === 401) {
    keepAuthorization(null);
    throw new Error("The server does not know this user with this password, or this token.");
  }
  const text = await response.text();
  if (!response.ok) {
    throw new Error(text.slice(0, 500));
  }
  return { text, response };
}

/** enter puts the page in the place of this document. */
async function enter(authorization: string): Promise<void> {
  const { text, response } = await get(new URL("./", location.href).href, "text/html", authorization);
  keepAuthorization(authorization);
  if (response.redirected) {
    location.replace(response.url + location.hash);
    return;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const files = async (selector: string, attribute: string): Promise<string[]> => {
    const names = [...page.querySelectorAll(selector)].map((element) => element.getAttribute(attribute) ?? "");
    const all = names.map((name) => get(new URL(name, response.url).href, "*/*", authorization));
    return (await Promise.all(all)).map((file) => file.text);
  };
  const [styles, scripts, icons] = await Promise.all([
    files('link[rel="stylesheet"]', "href"),
    files('script[type="module"][src]', "src"),
    files('link[rel="icon"]', "href"),
  ]);
  for (const icon of icons) {
    document.querySelector('link[rel="icon"]')?.setAttribute("href", `data:image/svg+xml,${encodeURIComponent(icon)}`);
  }
  const put = (kind: "style" | "script", content: string) => {
    const element = document.createElement(kind);
    if (element instanceof HTMLScriptElement) {
      element.type = "module";
    }
    element.textContent = content;
    document.head.append(element);
  };
  for (const own of document.querySelectorAll("style")) {
    own.remove();
  }
  for (const content of styles) {
    put("style", content);
  }
  const place = document.createElement("div");
  place.id = "page";
  document.body.replaceChildren(place);
  for (const content of scripts) {
    put("script", content);
  }
}

const door = document.querySelector<HTMLElement>(".door");
const form = door?.querySelector("form");
const wrong = form?.querySelector<HTMLElement>(".wrong");
const button = form?.querySelector("button");
if (door && form && wrong && button) {
  const field = (name: string) => form.elements.namedItem(name) as HTMLInputElement;
  const mayEnter = () => field("user").value !== "" || field("token").value.trim() !== "";
  const tryEntering = (authorization: string) => {
    button.disabled = true;
    wrong.textContent = "";
    enter(authorization).catch((error: unknown) => {
      wrong.textContent = error instanceof TypeError ? "The server does not answer." : (error as Error).message;
      door.hidden = false;
      button.disabled = !mayEnter();
      field(field("token").value === "" ? "user" : "token").focus();
    });
  };
  form.addEventListener("input", () => {
    button.disabled = !mayEnter();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    tryEntering(authorizationOf(field("user").value, field("password").value, field("token").value));
  });
  document.addEventListener("securitypolicyviolation", () => {
    document.body.textContent = "The servers behind this address are of several versions now. Load the page again.";
  });
  const kept = readAuthorization();
  if (kept === null) {
    door.hidden = false;
    field("user").focus();
  } else {
    tryEntering(kept);
  }
}
