/** What microphones and loudspeakers share: the form of sound, and their properties. */

import type { AudioInfo as AudioInfoMessage, GetPropertiesResponse } from "../../../proto/gen/common_pb.ts";

export interface AudioFormat {
  /** `pcm16`, `mp3`, … as published. */
  readonly codec: string;
  readonly sampleRateHz: number;
  readonly numChannels: number;
}

export interface AudioProperties {
  readonly supportedCodecs: readonly string[];
  readonly sampleRateHz: number;
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
