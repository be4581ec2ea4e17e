/** Client of the time-series database TickMesh. The README shows how it is used. */

export type { Ended } from "./calls.js";
export { Client, type Names, type Query, type Read } from "./client.js";
export { type ErrorKind, PartialError, TickmeshError } from "./errors.js";
export {
  absent,
  type Chunk,
  equal,
  isIn,
  type Matcher,
  matches,
  notEqual,
  notIn,
  notMatches,
  present,
  type Sample,
  type Selector,
  Series,
  TIME_MS_MAX,
  type Windows,
} from "./model.js";
export type { ClientOptions, TLS, WriterOptions } from "./options.js";
export { type RefusedSeries, WriteError } from "./writeerror.js";
export type { Writer } from "./writer.js";
