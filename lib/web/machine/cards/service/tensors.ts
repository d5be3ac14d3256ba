/** Pictures as tensors for a model, and the numbers of its answers. */

import type { FlatTensors } from "@viamrobotics/sdk";

const SIDE_DEFAULT = 224;
const SIDE_MAX = 4096;
const FLOAT_SCALE = 255;

interface Tensor {
  readonly shape: readonly bigint[];
  readonly tensor: {
    readonly case?: string;
    readonly value?: { readonly data: ArrayLike<number | bigint> | Uint8Array };
  };
}

/** The picture in the size and type of an input: height and width from its shape, colours last or second. */
export async function pictureTensor(
  picture: Blob,
  name: string,
  shape: readonly number[],
  dataType: string,
): Promise<FlatTensors> {
  const channelsFirst = shape.length === 4 && shape[1] === 3;
  const [high, wide] = channelsFirst ? shape.slice(2) : shape.slice(-3, -1);
  const side = (value: number | undefined) =>
    value !== undefined && value > 0 && value <= SIDE_MAX ? value : SIDE_DEFAULT;
  const [width, height] = [side(wide), side(high)];
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d")!;
  context.drawImage(await createImageBitmap(picture), 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);

  const pixels = width * height;
  const values = new Float32Array(pixels * 3);
  for (let pixel = 0; pixel < pixels; pixel++) {
    for (let channel = 0; channel < 3; channel++) {
      values[channelsFirst ? channel * pixels + pixel : pixel * 3 + channel] = data[pixel * 4 + channel] ?? 0;
    }
  }
  const isFloat = dataType.startsWith("float");
  const sizes = channelsFirst ? [1, 3, height, width] : [1, height, width, 3];
  const tensor = isFloat
    ? { case: "floatTensor", value: { data: values.map((value) => value / FLOAT_SCALE) } }
    : { case: "uint8Tensor", value: { data: new Uint8Array(values) } };
  return { tensors: { [name]: { shape: sizes.map(BigInt), tensor } } } as unknown as FlatTensors;
}

/** The numbers of each tensor of an answer. */
export function answerValues(tensors: Readonly<Record<string, unknown>>) {
  return Object.entries(tensors as Record<string, Tensor>).map(([name, { shape, tensor }]) => {
    const data = tensor.value?.data ?? [];
    return {
      name,
      shape: shape.map(String).join(" × "),
      values: Array.from(data as ArrayLike<number | bigint>, Number),
    };
  });
}
