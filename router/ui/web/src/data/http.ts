/** Requests to the server that the page came from, below whatever prefix it has. */
import { readAuthorization } from "./credentials";

/** An answer longer than this is not read to its end. */
export const answerBytesMax = 64 * 1024 * 1024;

/** Why a request gave no answer, with the HTTP status; 0: there was no answer at all. */
export class HTTPError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly body: string,
  ) {
    super(message);
  }
}

type Listener = () => void;
const refused = new Set<Listener>();

/** onRefused calls the listener when the server wants to know who asks. */
export function onRefused(listener: Listener): () => void {
  refused.add(listener);
  return () => refused.delete(listener);
}

/** address gives the full address of a path such as "api/query". */
export function address(path: string, params?: URLSearchParams): string {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  if (params !== undefined) {
    url.search = params.toString();
  }
  return url.toString();
}

export interface Answer {
  text: string;
  bytes: number;
  tookMs: number;
}

/** ask sends a request and gives the text of its answer. Errors: HTTPError, or AbortError. */
export async function ask(
  path: string,
  params: URLSearchParams,
  options: { signal?: AbortSignal; method?: string } = {},
): Promise<Answer> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const authorization = readAuthorization();
  if (authorization !== null) {
    headers.Authorization = authorization;
  }
  const started = performance.now();
  let response: Response;
  try {
    response = await fetch(address(path, params), {
      method: options.method ?? "GET",
      headers,
      // Who has signed in here is not who the browser knows; and when that is refused, the
      // browser is not to ask by itself.
      credentials: authorization === null ? "same-origin" : "omit",
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    throw new HTTPError(0, "The server does not answer.", "");
  }
  const { text, bytes } = await readBounded(response);
  if (!response.ok) {
    if (response.status === 401) {
      for (const listener of refused) {
        listener();
      }
    }
    throw new HTTPError(response.status, messageOf(response.status, text), text);
  }
  return { text, bytes, tookMs: performance.now() - started };
}

/** readBounded reads a body as text, and gives up on one that is too long. */
async function readBounded(response: Response): Promise<{ text: string; bytes: number }> {
  const reader = response.body?.getReader();
  if (reader === undefined) {
    return { text: "", bytes: 0 };
  }
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return { text: text + decoder.decode(), bytes };
    }
    bytes += value.length;
    if (bytes > answerBytesMax) {
      await reader.cancel();
      throw new HTTPError(
        response.status,
        `The answer is longer than ${answerBytesMax >> 20} MiB, more than this page reads: narrow the query.`,
        "",
      );
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** messageOf finds what an answer says went wrong, in the shape of any of the dialects. */
export function messageOf(status: number, body: string): string {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed) {
      const { error } = parsed;
      if (typeof error === "string" && error !== "") {
        return error;
      }
      if (typeof error === "object" && error !== null) {
        const { message, details } = error as { message?: unknown; details?: unknown };
        const parts = [message, details].filter((part) => typeof part === "string" && part !== "");
        if (parts.length > 0) {
          return parts.join(": ");
        }
      }
    }
  } catch {
    // It is no JSON: the text is shown as it is.
  }
  const plain = body.trim().slice(0, 500);
  return plain === "" ? `The server answered with status ${status}.` : plain;
}

/**
 * askJSON asks for one of the page's own answers; an empty db is that of the path. The server that made the page makes
 * them, so the type is trusted.
 */
export async function askJSON<T>(
  path: string,
  params: Record<string, string | string[]> = {},
  options: { signal?: AbortSignal; method?: string } = {},
): Promise<T> {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (key === "db" && value === "") {
      continue;
    }
    for (const one of Array.isArray(value) ? value : [value]) {
      search.append(key, one);
    }
  }
  return JSON.parse((await ask(`ui/api/${path}`, search, options)).text) as T;
}

/** isAbort says whether an error only says that nobody waits any more. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
