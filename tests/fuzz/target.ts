/** What is fuzzed: a reader of bytes from outside, with samples to begin from. */

import { SvcError } from "../../lib/base/error.ts";

export interface Target {
  /** `area/reader`, for the command line. */
  readonly name: string;
  /** Parts of the paths of the files whose coverage guides the search. */
  readonly covers: readonly string[];
  /** Starts what the target needs, before the samples are made; returns why it cannot be had here. */
  readonly open?: () => Promise<string | undefined>;
  /** Good inputs, and bad ones that once were a fault. */
  readonly samples: () => readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
  /** Words that a random change would not find. */
  readonly words?: readonly string[];
  /** Reads an input; throws what its caller would see. */
  readonly read: (bytes: Uint8Array) => unknown;
  /** Codes of errors that tell the sender that the input is bad; `REFUSALS` unless given. */
  readonly refusals?: readonly string[];
  /** Other errors that the callers of this reader expect. */
  readonly isRefusal?: (error: unknown) => boolean;
  /** Frees what was opened. */
  readonly close?: () => void | Promise<void>;
}

const REFUSALS = ["invalid_argument", "resource_exhausted"];
/** Longer inputs show nothing new, and slow the search down. */
export const INPUT_BYTES_MAX = 64 * 1024;

/** Reads an input; returns what went wrong, `undefined` if it was read or refused as it should be. */
export async function attempt(target: Target, bytes: Uint8Array): Promise<unknown> {
  const { read, refusals = REFUSALS, isRefusal = () => false } = target;
  try {
    const reading = read(bytes);
    if (reading instanceof Promise) await reading;
  } catch (error) {
    if (error instanceof SvcError && refusals.includes(error.code) || isRefusal(error)) return undefined;
    return error ?? new Error("something without a value was thrown");
  }
  return undefined;
}

export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function textIn(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
