/** A photograph as phones store it: turned, with the orientation in its EXIF data. */

/** A JPEG file with an orientation, 1 to 8, in a segment behind its first two bytes. */
export function withOrientation(file: Uint8Array, orientation: number): Uint8Array {
  const tiff = [
    0x4d,
    0x4d,
    0,
    42,
    0,
    0,
    0,
    8,
    0,
    1,
    1,
    0x12,
    0,
    3,
    0,
    0,
    0,
    1,
    0,
    orientation,
    0,
    0,
    0,
    0,
    0,
    0,
  ];
  const exif = [0xff, 0xe1, 0, tiff.length + 8, ...new TextEncoder().encode("Exif\0\0"), ...tiff];
  return Uint8Array.from([...file.subarray(0, 2), ...exif, ...file.subarray(2)]);
}
