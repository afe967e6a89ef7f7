//! Pictures of the screen as PNG.

use crate::DesktopError;

/// Red, green and blue, a byte each.
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u8>,
}

/// How large a picture is against the screen: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(f64);

impl Scale {
    /// Takes a factor; `None` outside what is possible.
    pub fn new(factor: f64) -> Option<Self> {
        (factor > 0.0 && factor <= 1.0).then_some(Self(factor))
    }
}

/// Bytes of a pixel as X servers send it: blue, green, red, and one of no meaning.
const X_PIXEL: usize = 4;

impl Picture {
    /// Takes the pixels of an X server.
    pub(crate) fn from_x(width: usize, height: usize, data: &[u8]) -> Result<Self, DesktopError> {
        let data = data.get(..width * height * X_PIXEL).ok_or(DesktopError::ShortPicture)?;
        let mut pixels = Vec::with_capacity(width * height * 3);
        for pixel in data.chunks_exact(X_PIXEL) {
            pixels.extend([pixel[2], pixel[1], pixel[0]]);
        }
        Ok(Self { width, height, pixels })
    }

    /// Draws a cursor (alpha, red, green, blue; the colours already multiplied) with its top left corner at a place.
    pub(crate) fn draw(&mut self, x: i32, y: i32, width: usize, argb: &[u32]) {
        for (at, colour) in argb.iter().enumerate() {
            let (column, row) = (i32::try_from(at % width.max(1)), i32::try_from(at / width.max(1)));
            let place = |base: i32, offset: Result<i32, _>, limit: usize| {
                let at = usize::try_from(base.checked_add(offset.ok()?)?).ok()?;
                (at < limit).then_some(at)
            };
            let (Some(column), Some(row)) = (place(x, column, self.width), place(y, row, self.height)) else {
                continue;
            };
            let [alpha, rgb @ ..] = colour.to_be_bytes();
            let pixel = &mut self.pixels[(row * self.width + column) * 3..][..3];
            for (under, over) in pixel.iter_mut().zip(rgb) {
                let rest = u32::from(*under) * (255 - u32::from(alpha)) / 255;
                *under = u8::try_from(u32::from(over) + rest).unwrap_or(u8::MAX);
            }
        }
    }

    /// The same picture smaller, each pixel the mean of those that it stands for.
    pub(crate) fn scaled(self, scale: Scale) -> Self {
        let size = |length: usize| ((length as f64 * scale.0).round() as usize).clamp(1, length);
        let (width, height) = (size(self.width), size(self.height));
        if (width, height) == (self.width, self.height) {
            return self;
        }
        let mut pixels = Vec::with_capacity(width * height * 3);
        let span = |at: usize, of: usize, from: usize| (at * from / of)..((at + 1) * from).div_ceil(of);
        for row in 0..height {
            for column in 0..width {
                let (rows, columns) = (span(row, height, self.height), span(column, width, self.width));
                let count = (rows.len() * columns.len()) as u32;
                let mut sums = [0u32; 3];
                for y in rows {
                    let line = &self.pixels[(y * self.width + columns.start) * 3..(y * self.width + columns.end) * 3];
                    for pixel in line.chunks_exact(3) {
                        sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += u32::from(*value));
                    }
                }
                pixels.extend(sums.map(|sum| (sum / count) as u8));
            }
        }
        Self { width, height, pixels }
    }

    /// As a PNG file.
    pub(crate) fn png(&self) -> Result<Vec<u8>, DesktopError> {
        let mut file = Vec::with_capacity(self.pixels.len() / 8);
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        // A picture is taken after every action: time counts, not size.
        encoder.set_compression(png::Compression::Fastest);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(file)
    }

    /// Whether anything is drawn: not all of one colour.
    pub(crate) fn is_drawn(&self) -> bool {
        let mut pixels = self.pixels.chunks_exact(3);
        let first = pixels.next();
        pixels.any(|pixel| Some(pixel) != first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        // Blue, green / red, white, as an X server has them.
        let data = [[255, 0, 0, 9], [0, 255, 0, 9], [0, 0, 255, 9], [255, 255, 255, 9]].concat();
        Picture::from_x(2, 2, &data).unwrap()
    }

    #[test]
    fn a_png_has_the_servers_pixels() {
        let file = picture().png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [[0, 0, 255], [0, 255, 0], [255, 0, 0], [255, 255, 255]].concat());
        assert!(matches!(Picture::from_x(2, 3, &[0; 16]), Err(DesktopError::ShortPicture)));
    }

    #[test]
    fn a_smaller_picture_is_the_mean() {
        let small = picture().scaled(Scale::new(0.5).unwrap());
        assert_eq!((small.width, small.height, small.pixels), (1, 1, vec![127, 127, 127]));
        assert!([0.0, -1.0, 1.01, f64::NAN, f64::INFINITY].into_iter().all(|factor| Scale::new(factor).is_none()));
    }

    #[test]
    fn a_cursor_at_an_edge_is_cut() {
        let mut drawn = picture();
        drawn.draw(1, 1, 2, &[0xff00_0000; 4]);
        drawn.draw(-5, i32::MAX, 2, &[0xffff_ffff; 4]);
        assert_eq!(drawn.pixels, [[0, 0, 255], [0, 255, 0], [255, 0, 0], [0, 0, 0]].concat());
        assert!(drawn.is_drawn());
    }
}
