/**
 * The way of captured data to a control plane, as models see it: what they hand over, and who takes it.
 */

import type { JsonObject } from "../base/schema/schema.ts";

/** Where data was captured, and what it is to be filed under. */
export interface CaptureSource {
  /** `rdk:component:camera`; empty where no resource captured it. */
  readonly componentType: string;
  readonly componentName: string;
  readonly methodName: string;
  /** What the method was called with besides. */
  readonly parameters: JsonObject;
  readonly tags: readonly string[];
  readonly datasetIds: readonly string[];
}

export interface CapturedReading {
  /** When it was asked for, to the microsecond: no two readings of one source have the same time. */
  readonly timeMs: number;
  readonly receivedMs: number;
  readonly payload: JsonObject;
}

export interface CapturedReadings {
  readonly kind: "readings";
  readonly source: CaptureSource;
  readonly readings: readonly CapturedReading[];
}

/** An image, a point cloud or any other file. */
export interface CapturedFile {
  readonly kind: "file";
  readonly source: CaptureSource;
  readonly timeMs: number;
  readonly receivedMs: number;
  readonly mimeType: string;
  readonly fileName: string;
  readonly annotations?: CapturedAnnotations;
  readonly content: Uint8Array;
}

/** A box in a picture; corners are from 0 to 1. */
export interface CapturedBox {
  readonly label: string;
  readonly confidence?: number;
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

/** What a camera or a vision service says is in a picture. */
export interface CapturedAnnotations {
  readonly boxes: readonly CapturedBox[];
  readonly classifications: readonly { readonly label: string; readonly confidence?: number }[];
}

export type Captured = CapturedReadings | CapturedFile;

export interface Uplink {
  /**
   * Hands over data; when it resolves the control plane has it. The same data may be handed over again, and arrives
   * once all the same. Errors are `SvcError`s with the code of the answer.
   */
  send(data: Captured, signal: AbortSignal): Promise<void>;
}
