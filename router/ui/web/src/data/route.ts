/** What the part of the address after # says: which view, and its state. */
export interface Route {
  view: ViewName;
  params: Record<string, string>;
}

export const viewNames = ["query", "explore", "alerts", "cluster", "queries"] as const;
export type ViewName = (typeof viewNames)[number];

function isView(name: string): name is ViewName {
  return (viewNames as readonly string[]).includes(name);
}

/** parseHash reads "#/query?d=promql&q=up". What is no view is the query view. */
export function parseHash(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const name = cut < 0 ? text : text.slice(0, cut);
  const params: Record<string, string> = {};
  if (cut >= 0) {
    for (const [key, value] of new URLSearchParams(text.slice(cut + 1))) {
      params[key] = value;
    }
  }
  return { view: isView(name) ? name : "query", params };
}

/** formatHash is the reverse of parseHash; empty parameters are left out. */
export function formatHash(route: Route): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(route.params)) {
    if (value !== "") {
      search.set(key, value);
    }
  }
  const text = search.toString();
  return `#/${route.view}${text === "" ? "" : `?${text}`}`;
}
