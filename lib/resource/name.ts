/**
 * Names of APIs (`rdk:component:motor`), models (`rdk:builtin:gpio`) and resources
 * (`rdk:component:motor/left`, on a remote `rdk:component:motor/arm-pc:left`).
 */

import { SvcError } from "../base/error.ts";

const WORD = /^[\w-]+$/;
const NAME = /^[a-zA-Z0-9][-\w]*$/;

/** Longest name of a resource or remote; modules and packages may have 200 characters. */
export const NAME_LENGTH_MAX = 60;

/** `namespace:kind:type`, for example `rdk:component:motor`. */
export interface ApiName {
  readonly namespace: string;
  readonly kind: "component" | "service";
  readonly type: string;
}

export function parseApi(text: string): ApiName {
  const [namespace = "", kind, type, ...rest] = text.split(":");
  if (rest.length > 0 || !type || (kind !== "component" && kind !== "service") || !WORD.test(type)) {
    const wanted = "rdk:component:<type> or rdk:service:<type>";
    throw new SvcError("invalid_argument", `"${text}" is not the name of an API, wanted ${wanted}`);
  }
  if (!WORD.test(namespace)) {
    throw new SvcError(
      "invalid_argument",
      `"${text}" is not the name of an API: bad namespace "${namespace}"`,
    );
  }
  return { namespace, kind, type };
}

/** A model's full name; a bare word means a built-in model. */
export function parseModel(text: string): string {
  const parts = text.split(":");
  if (parts.every((part) => WORD.test(part)) && (parts.length === 3 || parts.length === 1)) {
    return parts.length === 1 ? `rdk:builtin:${text}` : text;
  }
  const wanted = "a word such as fake, or namespace:family:name";
  throw new SvcError("invalid_argument", `"${text}" is not the name of a model, wanted ${wanted}`);
}

/** The name of one resource of a machine. Names with equal `full` text mean the same resource. */
export class ResourceName {
  /** `rdk:component:motor/left`, with a remote `rdk:component:motor/remote:left`. */
  readonly full: string;

  private constructor(
    /** `rdk:component:motor` */
    readonly api: string,
    /** The name within this machine: `left`, or `remote:left`. */
    readonly short: string,
    /** The name on the machine where the resource lives: for a remote's resource, without the remote. */
    readonly far: string = short,
  ) {
    this.full = `${api}/${short}`;
  }

  /** A name of parts that are known to be good; `far` differs from `short` for a remote's resource. */
  static of(api: string, short: string, far?: string): ResourceName {
    return new ResourceName(api, short, far);
  }

  /** The name for clients: the short name without the remote. */
  get simple(): string {
    return this.short.slice(this.short.indexOf(":") + 1);
  }

  /** Whether the resource is on another machine. */
  get isRemote(): boolean {
    return this.short.includes(":");
  }

  /** What a resource that is named here as `name` is called on the machine where this one lives. */
  farOf(name: string): string {
    if (this.far === this.short) return name;
    const remote = `${this.remote}:`;
    const simple = name.startsWith(remote) ? name.slice(remote.length) : name;
    return simple.startsWith(this.prefix) ? simple.slice(this.prefix.length) : name;
  }

  /** What a resource of the machine where this one lives is called here, without the remote. */
  nearOf(far: string): string {
    return far && this.prefix + far;
  }

  /** The remote that the resource is on; empty for a resource of this machine. */
  get remote(): string {
    return this.far === this.short ? "" : this.short.slice(0, this.short.indexOf(":"));
  }

  /** The prefix that the remote's names have here. */
  get prefix(): string {
    const { simple, far } = this;
    return simple.endsWith(far) ? simple.slice(0, simple.length - far.length) : "";
  }

  /** Reads `rdk:component:motor/left` or `rdk:component:motor/far:left`. Throws `invalid_argument`. */
  static parse(full: string): ResourceName {
    const slash = full.indexOf("/");
    const short = full.slice(slash + 1);
    if (slash < 0 || !short.split(":").every((part) => NAME.test(part))) {
      const wanted = "<api>/<name>, for example rdk:component:motor/left";
      throw new SvcError(
        "invalid_argument",
        `"${full}" is not the full name of a resource, wanted ${wanted}`,
      );
    }
    parseApi(full.slice(0, slash));
    return new ResourceName(full.slice(0, slash), short);
  }

  /** The full name, as `parse` reads it. */
  toString(): string {
    return this.full;
  }
}
