/**
 * The types of captured files: extensions and MIME types.
 */

const TYPES: readonly (readonly [mimeType: string, ...extensions: string[]])[] = [
  ["image/jpeg", ".jpg", ".jpeg"],
  ["image/png", ".png"],
  ["image/gif", ".gif"],
  ["image/webp", ".webp"],
  ["image/vnd.viam.dep", ".dep"],
  ["image/vnd.viam.rgba", ".rgba"],
  ["pointcloud/pcd", ".pcd"],
  ["video/mp4", ".mp4"],
  ["audio/mpeg", ".mp3"],
  ["audio/wav", ".wav"],
  ["application/json", ".json"],
  ["application/pdf", ".pdf"],
  ["application/zip", ".zip"],
  ["application/gzip", ".gz"],
  ["application/octet-stream", ".dat", ".bin"],
  ["text/csv", ".csv"],
  ["text/plain", ".txt", ".log"],
];

export const ANY_BYTES = "application/octet-stream";

const LETTERS_MAX = 1_000;

/** Whether a text can be a MIME type, which becomes a header field. */
export function isMimeType(text: string): boolean {
  return text.length <= LETTERS_MAX && /^[\x20-\x7e]*$/.test(text);
}

/** `.jpg`; empty for an unknown type. */
export function extensionOf(mimeType: string): string {
  if (mimeType === ANY_BYTES) return "";
  return TYPES.find(([type]) => type === mimeType)?.[1] ?? "";
}

export function mimeTypeOfExtension(extension: string): string {
  const found = TYPES.find(([, ...extensions]) => extensions.includes(extension.toLowerCase()));
  return found?.[0] ?? ANY_BYTES;
}
