/**
 * The path of captured data to a control plane, as models see it: the data that they hand over, and the
 * receiver.
 */

import type { JsonObject } from "../base/schema/schema.ts";

/** The origin of captured data, and the labels under which it is filed. */
export interface CaptureSource {
  /** `rdk:component:camera`; empty if no resource captured it. */
  readonly componentType: string;
  readonly componentName: string;
  readonly methodName: string;
  /** Further arguments of the method. */
  readonly parameters: JsonObject;
  readonly tags: readonly string[];
  readonly datasetIds: readonly string[];
}

export interface CapturedReading {
  /** When the reading was requested, to the microsecond: no two readings of one source have the same time. */
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
  /** The kind of object. */
  readonly label: string;
  /** From 0 to 1. Absent if the camera or service gives none. */
  readonly confidence?: number;
  /** The left edge. */
  readonly xMin: number;
  /** The upper edge. */
  readonly yMin: number;
  /** The right edge. */
  readonly xMax: number;
  /** The lower edge. */
  readonly yMax: number;
}

/** The findings in a picture, as a camera or a vision service reports them. */
export interface CapturedAnnotations {
  /** Objects in the picture. */
  readonly boxes: readonly CapturedBox[];
  /** Classes of the whole picture; confidences are from 0 to 1. */
  readonly classifications: readonly { readonly label: string; readonly confidence?: number }[];
}

export interface SequencedResource {
  /** The short name. */
  readonly resourceName: string;
  readonly methodName: string;
}

/** A span of time in what was captured: what these methods gave belongs together. */
export interface CapturedSequence {
  readonly kind: "sequence";
  /** Its tags are those of the sequence. */
  readonly source: CaptureSource;
  readonly startMs: number;
  readonly endMs: number;
  readonly resources: readonly SequencedResource[];
}

export type Captured = CapturedReadings | CapturedFile | CapturedSequence;

export interface Uploader {
  /**
   * Hands over data. Once this resolves, the control plane has the data. Handing over the same data again is
   * safe: it arrives once. Errors are `SvcError`s with the code of the answer.
   */
  send(data: Captured, signal: AbortSignal): Promise<void>;
}
