import { assertAlmostEquals, assertEquals } from "@std/assert";
import { randomFrom } from "../geometry/random.ts";
import { Matrices } from "./matrix.ts";
import { Adam, Network } from "./network.ts";

Deno.test("Matrices: multiply plain, added and transposed matrices correctly", () => {
  const matrices = new Matrices();
  const random = randomFrom(3);
  const [rows, columns, depth] = [12, 16, 7];
  const [a, b] = [matrices.space(rows * depth), matrices.space(depth * columns)];
  for (const matrix of [a, b]) matrix.forEach((_, at) => matrix[at] = random() - 0.5);
  const turned = matrices.space(rows * depth);
  const [c, d] = [matrices.space(rows * columns), matrices.space(rows * columns)];
  c.fill(9);
  matrices.multiply(c, a, b, rows, columns, depth);
  for (let row = 0; row < rows; row++) {
    for (let step = 0; step < depth; step++) turned[step * rows + row] = a[row * depth + step];
  }
  matrices.multiplyTransposed(d, turned, b, rows, columns, depth);
  assertEquals([...d], [...c]);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let step = 0; step < depth; step++) sum += a[row * depth + step] * b[step * columns + column];
      assertAlmostEquals(c[row * columns + column], sum, 1e-6);
    }
  }
  matrices.multiply(d, a, b, rows, columns, depth, true);
  assertAlmostEquals(d[5], 2 * c[5], 1e-6);
});

/** A small network with every kind of layer, a random picture and a random linear loss. */
function smallNetwork() {
  const random = randomFrom(1);
  const network = new Network(4, 8, random);
  const inner = { size: 3, rectified: true } as const;
  const first = network.convolution(network.picture, { ...inner, channels: 8, stride: 1 });
  const second = network.convolution(first.output, { ...inner, channels: 16, stride: 2 });
  const third = network.convolution(second.output, { ...inner, channels: 16, stride: 2 });
  const side = network.convolution(third.output, { channels: 16, size: 1, stride: 1, rectified: false });
  const merged = network.merge(second.output, side.output);
  const last = network.convolution(network.peak(merged), {
    channels: 3,
    size: 1,
    stride: 1,
    rectified: false,
  });
  const { data } = network.picture;
  for (let at = 0; at < data.length; at++) data[at] = at % 4 === 3 ? 0 : 2 * random() - 1;
  for (const { value } of network.parameters()) {
    for (let at = 0; at < value.length; at++) value[at] += 0.2 * (random() - 0.5);
  }
  const wanted = Float64Array.from(last.output.data, () => 10 * (random() - 0.5));
  const loss = () => {
    network.forward();
    return last.output.data.reduce((sum, value, at) => sum + value * wanted[at], 0);
  };
  return { network, last, wanted, loss };
}

Deno.test("Network: the gradient matches numerical differentiation", () => {
  const { network, last, wanted, loss } = smallNetwork();
  loss();
  last.output.gradient!.set(wanted);
  network.backward();
  const slopes = network.parameters().map(({ gradient }) => gradient.slice());
  const random = randomFrom(2);
  let [error, size] = [0, 0];
  network.parameters().forEach(({ value }, index) => {
    for (let trial = 0; trial < 12; trial++) {
      const at = Math.floor(random() * value.length);
      const [kept, step] = [value[at], 2e-3];
      value[at] = kept + step;
      const above = loss();
      value[at] = kept - step;
      const measured = (above - loss()) / (2 * step);
      value[at] = kept;
      error += (measured - slopes[index][at]) ** 2;
      size += measured ** 2;
    }
  });
  // The error stays above zero because rectifiers switch within a step and numbers have 32 bits.
  assertEquals(Math.sqrt(error / size) < 0.02, true, `relative error ${Math.sqrt(error / size)}`);
});

Deno.test("Network: folded weights give the trained output after the statistics settle", () => {
  const { network, last, loss } = smallNetwork();
  for (let turn = 0; turn < 100; turn++) loss();
  const trained = last.output.data.slice();
  network.fold();
  network.use();
  last.output.data.forEach((value, at) => assertAlmostEquals(value, trained[at], 2e-3));
});

Deno.test("Adam: lowers the loss", () => {
  const { network, last, wanted, loss } = smallNetwork();
  const adam = new Adam(network.parameters(), 1e-4);
  const before = loss();
  for (let turn = 0; turn < 20; turn++) {
    loss();
    last.output.gradient!.set(wanted);
    network.backward();
    adam.step(1e-2);
  }
  assertEquals(loss() < before - 5, true);
});
