/** What microphones and loudspeakers share: the form of sound, and their properties. */

import type { AudioInfo as AudioInfoMessage, GetPropertiesResponse } from "../../../proto/gen/common_pb.ts";

/** The form of a sound. */
export interface AudioFormat {
  /** `pcm16`, `mp3`, … as published. */
  readonly codec: string;
  /** Samples per second of each channel. */
  readonly sampleRateHz: number;
  /** 1 is mono, 2 is stereo. */
  readonly numChannels: number;
}

/** The forms of sound that a device takes or gives. */
export interface AudioProperties {
  /** `pcm16`, `mp3`, … as published. */
  readonly supportedCodecs: readonly string[];
  /** Samples per second of each channel. */
  readonly sampleRateHz: number;
  /** 1 is mono, 2 is stereo. */
  readonly numChannels: number;
}

export function fromAudioMessage(message: AudioInfoMessage | undefined): AudioFormat | undefined {
  if (!message) return undefined;
  const { codec, sampleRateHz, numChannels } = message;
  return { codec, sampleRateHz, numChannels };
}

export function fromAudioProperties(message: GetPropertiesResponse): AudioProperties {
  const { supportedCodecs, sampleRateHz, numChannels } = message;
  return { supportedCodecs, sampleRateHz, numChannels };
}

export function toAudioProperties({ supportedCodecs, sampleRateHz, numChannels }: AudioProperties) {
  return { supportedCodecs: [...supportedCodecs], sampleRateHz, numChannels };
}
