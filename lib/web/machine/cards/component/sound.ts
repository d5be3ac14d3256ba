/** Sound as 16 bit samples: its level, and files of it. */

const HEADER_BYTES = 44;
const SAMPLE_BYTES = 2;
const FULL_SCALE = 32_768;

/** The root mean square of the samples, as a share of full scale. */
export function levelOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = Math.floor(bytes.length / SAMPLE_BYTES);
  let sum = 0;
  for (let at = 0; at < count; at++) sum += (view.getInt16(at * SAMPLE_BYTES, true) / FULL_SCALE) ** 2;
  return count === 0 ? 0 : Math.sqrt(sum / count);
}

/** A WAVE file of 16 bit samples. */
export function waveFile(chunks: readonly Uint8Array[], sampleRateHz: number, channels: number): Uint8Array {
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
  const file = new Uint8Array(HEADER_BYTES + bytes);
  const view = new DataView(file.buffer);
  const text = (at: number, letters: string) => file.set(new TextEncoder().encode(letters), at);
  text(0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + bytes, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, sampleRateHz, true);
  view.setUint32(28, sampleRateHz * channels * SAMPLE_BYTES, true);
  view.setUint16(32, channels * SAMPLE_BYTES, true);
  view.setUint16(34, SAMPLE_BYTES * 8, true);
  text(36, "data");
  view.setUint32(40, bytes, true);
  let at = HEADER_BYTES;
  for (const chunk of chunks) {
    file.set(chunk, at);
    at += chunk.length;
  }
  return file;
}

/** The samples of a tone. */
export function tone(hz: number, seconds: number, sampleRateHz: number, channels: number): Uint8Array {
  const frames = Math.round(seconds * sampleRateHz);
  const view = new DataView(new ArrayBuffer(frames * channels * SAMPLE_BYTES));
  for (let frame = 0; frame < frames; frame++) {
    const value = Math.round(Math.sin(2 * Math.PI * hz * frame / sampleRateHz) * 0.4 * FULL_SCALE);
    for (let channel = 0; channel < channels; channel++) {
      view.setInt16((frame * channels + channel) * SAMPLE_BYTES, value, true);
    }
  }
  return new Uint8Array(view.buffer);
}
