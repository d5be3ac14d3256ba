/** JPEG files one after the other in a stream of bytes, as ffmpeg writes them to a pipe. */

/** A longer file is no picture of a camera. */
const JPEG_BYTES_MAX = 16 * 1024 * 1024;
const START = [0xff, 0xd8, 0xff] as const;

/**
 * Cuts a stream into files. A file ends at its end marker, which cannot stand within the data of a picture, because such
 * bytes are escaped there.
 */
export class JpegStream {
  #rest = new Uint8Array();
  /** The bytes of the rest that were searched. */
  #searched = 0;

  /** The files that are whole with these bytes. */
  push(bytes: Uint8Array): Uint8Array[] {
    const joined = new Uint8Array(this.#rest.length + bytes.length);
    joined.set(this.#rest);
    joined.set(bytes, this.#rest.length);
    this.#rest = joined;

    const found: Uint8Array[] = [];
    for (;;) {
      const start = indexOfStart(this.#rest);
      if (start < 0) {
        this.#drop(Math.max(0, this.#rest.length - START.length));
        return found;
      }
      this.#drop(start);
      const end = this.#end();
      if (end < 0) {
        if (this.#rest.length > JPEG_BYTES_MAX) this.#drop(START.length);
        else return found;
      } else {
        found.push(this.#rest.slice(0, end));
        this.#drop(end);
      }
    }
  }

  /** The end of the file that begins the rest; -1 if it is not there yet. */
  #end(): number {
    const bytes = this.#rest;
    for (let at = Math.max(START.length, this.#searched - 1); at + 1 < bytes.length; at++) {
      if (bytes[at] === 0xff && bytes[at + 1] === 0xd9) return at + 2;
    }
    this.#searched = bytes.length;
    return -1;
  }

  #drop(count: number): void {
    if (count === 0) return;
    this.#rest = this.#rest.slice(count);
    this.#searched = 0;
  }
}

function indexOfStart(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(START[0]); at >= 0; at = bytes.indexOf(START[0], at + 1)) {
    if (bytes[at + 1] === START[1] && bytes[at + 2] === START[2]) return at;
  }
  return -1;
}
