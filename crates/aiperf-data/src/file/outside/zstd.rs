//! Pages of Parquet that are packed with zstd: they are read as they are, and unpacked here.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use ruzstd::decoding::StreamingDecoder;

/// A group of rows whose columns may be packed with zstd.
pub(super) struct Group<'a> {
    pub(super) inner: Box<dyn RowGroupReader + 'a>,
    /// The file it is in.
    pub(super) file: &'a Arc<File>,
}

impl RowGroupReader for Group<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.inner.metadata()
    }

    fn num_columns(&self) -> usize {
        self.inner.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        let column = self.metadata().column(i);
        if !matches!(column.compression(), Compression::ZSTD(_)) {
            return self.inner.get_column_page_reader(i);
        }
        let as_it_is = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let rows = usize::try_from(self.metadata().num_rows())?;
        let inner = SerializedPageReader::new(Arc::clone(self.file), &as_it_is, rows, None)?;
        // No page of the column holds more than all of them.
        let most = u64::try_from(column.uncompressed_size())?;
        Ok(Box::new(Pages { inner, most }))
    }

    fn get_column_bloom_filter(&self, i: usize) -> Option<&Sbbf> {
        self.inner.get_column_bloom_filter(i)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// The pages of such a column.
struct Pages {
    inner: SerializedPageReader<File>,
    most: u64,
}

impl Pages {
    fn unpacked(&self, mut page: Page) -> Result<Page> {
        let (bytes, plain) = match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => (buf, 0),
            Page::DataPageV2 { buf, is_compressed, def_levels_byte_len, rep_levels_byte_len, .. } => {
                if !std::mem::take(is_compressed) {
                    return Ok(page);
                }
                // Its levels are never packed.
                (buf, (*def_levels_byte_len + *rep_levels_byte_len) as usize)
            }
        };
        *bytes = self.unpack(bytes, plain)?.into();
        Ok(page)
    }

    /// The first `plain` bytes of `page` as they are, and what stands behind them unpacked.
    fn unpack(&self, page: &[u8], plain: usize) -> Result<Vec<u8>> {
        let failed = |error: &dyn std::fmt::Display| {
            ParquetError::General(format!("a page cannot be unpacked by zstd: {error}"))
        };
        let (plain, mut rest) = page
            .split_at_checked(plain)
            .ok_or_else(|| ParquetError::General("a page is shorter than its levels".to_owned()))?;
        let mut out = plain.to_vec();
        // A page without values may be nothing at all.
        while !rest.is_empty() {
            let left = (self.most + 1).saturating_sub(out.len() as u64);
            let decoder = StreamingDecoder::new(&mut rest).map_err(|error| failed(&error))?;
            decoder.take(left).read_to_end(&mut out).map_err(|error| failed(&error))?;
            if out.len() as u64 > self.most {
                return Err(ParquetError::General("a page is larger than its column".to_owned()));
            }
        }
        Ok(out)
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.inner.get_next_page()?.map(|page| self.unpacked(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use aiperf_files::Input;
    use serde_json::{Value, json};
    use std::ops::ControlFlow;

    use crate::file::outside::tables;

    fn read(bytes: &[u8]) -> Result<Vec<Value>, String> {
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, bytes).expect("written");
        let input = Input { file, name: "t".into(), is_spooled: false };
        let mut all = Vec::new();
        let read = tables::parquet(&input, &["prompt", "image", "tags"], &mut |_, entry| {
            all.push(Value::Object(entry?));
            Ok(ControlFlow::Continue(()))
        });
        read.map(|()| all).map_err(|error| error.to_string())
    }

    /// Written by Arrow, in two groups, with dictionaries, nulls and lists; pages of both versions.
    #[test]
    fn pages_are_unpacked() {
        for table in
            [&include_bytes!("fixtures/zstd_v1.parquet")[..], include_bytes!("fixtures/zstd_v2.parquet")]
        {
            let rows = read(table).expect("a good table");
            let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
            assert_eq!(
                column("prompt"),
                [json!("first"), json!("second"), json!("first"), json!(null), json!("the last one")]
            );
            assert_eq!(
                column("tags"),
                [json!(["a", "b"]), json!([]), json!(["a"]), json!(null), json!(["b", "b", "b"])]
            );
            let image = column("image")[3]["bytes"].as_str().map(str::to_owned).expect("base64");
            assert!(image.starts_with("iVBORw0KGgoAAQIDBAUGBwgJ") && image.len() == 224, "{image}");
            assert_eq!(column("image")[4]["bytes"], Value::Null);
            for at in 0..table.len() {
                let mut damaged = table.to_vec();
                damaged[at] ^= 0x55;
                // Whatever comes of it: nobody falls over it.
                let _ = read(&damaged);
            }
        }
    }
}
