/** Who asks, as the tab keeps it: the value of the header Authorization. */

const key = "tickmesh.authorization";

/** readAuthorization gives what was kept; null: nobody has signed in here. */
export function readAuthorization(): string | null {
  return sessionStorage.getItem(key);
}

/** keepAuthorization keeps it until the tab is closed; null forgets it. */
export function keepAuthorization(authorization: string | null): void {
  if (authorization === null) {
    sessionStorage.removeItem(key);
  } else {
    sessionStorage.setItem(key, authorization);
  }
}

/** authorizationOf gives the header's value: of a token, or of a user and a password in UTF-8 (RFC 7617). */
export function authorizationOf(user: string, password: string, token: string): string {
  if (token.trim() !== "") {
    return `Bearer ${token.trim()}`;
  }
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}
