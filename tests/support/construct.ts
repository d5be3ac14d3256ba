/**
 * For the tests of drivers: builds a model from attributes as a user writes them, and returns their problems.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { FakeClock } from "./fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Host } from "../../lib/base/host.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import { DecodeContext, type JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { Dependencies, type Model } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";

interface Surroundings {
  /** Short name; `test` by default. */
  readonly name?: string;
  readonly dependencies?: readonly Resource[];
  readonly clock?: Clock;
  readonly host?: Host;
  /** Receives the resource's log lines. */
  readonly logged?: LogRecord[];
}

/** A resource of `model`, or a rejection with the problems of its attributes or its construction. */
export async function construct<R extends Resource, A>(
  model: Model<R, A>,
  attributes: JsonObject = {},
  { name = "test", dependencies = [], clock = new FakeClock(), host = new DenoHost(), logged = [] }:
    Surroundings = {},
): Promise<R> {
  const at = new DecodeContext();
  const decoded = model.attributes.decode(attributes, at);
  if (at.failed) throw new SvcError("invalid_argument", problemsOf(model, attributes).join("; "));
  const full = ResourceName.of(model.api.name, name);
  return await model.construct({
    name: full,
    attributes: decoded,
    dependencies: new Dependencies(full, dependencies),
    logger: new Logs(clock, [memorySink(logged)]).logger(name),
    clock,
    host,
    signal: new AbortController().signal,
  });
}

/** The errors of attributes, each as `path: message`. */
export function problemsOf<R extends Resource, A>(model: Model<R, A>, attributes: JsonObject): string[] {
  const at = new DecodeContext();
  model.attributes.decode(attributes, at);
  return at.problems.filter(({ severity }) => severity === "error").map(({ path, message }) =>
    `${path}: ${message}`
  );
}

/** The resources that attributes name, which must be built first. */
export function namedBy<R extends Resource, A>(model: Model<R, A>, attributes: JsonObject): string[] {
  const at = new DecodeContext();
  model.attributes.decode(attributes, at);
  return at.named.map(({ name }) => name);
}
