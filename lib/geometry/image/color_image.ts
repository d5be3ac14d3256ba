/** A decoded picture in color. */

/** Row by row, 4 bytes (red, green, blue, alpha) a pixel. */
export interface ColorImage {
  /** In pixels. */
  readonly width: number;
  /** In pixels. */
  readonly height: number;
  /** `width` times `height` pixels. */
  readonly rgba: Uint8Array;
}
