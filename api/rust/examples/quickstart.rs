use tickmesh::{Client, Matcher, Query, Sample, Selector, Series};

#[tokio::main]
async fn main() -> Result<(), tickmesh::Error> {
    let endpoints = std::env::var("TICKMESH_ENDPOINTS").unwrap_or("127.0.0.1:6183".to_owned());
    let client = Client::builder(endpoints.split(',')).build()?;
    let cpu = Series::new("cpu", [("host", "a")])?;

    // One write, answered when a majority of the replicas has it.
    client.write([Sample::new(&cpu, 1_700_000_000_000, 0.64)]).await?;

    // Many samples: gathered into batches, sent in the background. append waits while the buffer is full.
    let writer = client.writer().build()?;
    for i in 1..100_000_i32 {
        writer
            .append(&cpu, 1_700_000_000_000 + i64::from(i), f64::from(i) / 10.0)
            .await?;
    }
    writer.close().await?; // sends what is left; an error says what was lost

    let mut points = 0;
    let selector = Selector::metric("cpu").matching(Matcher::equal("host", "a"));
    let mut chunks = client.query(&Query::new(selector, 0..=1_800_000_000_000)).await?;
    while let Some(chunk) = chunks.next().await {
        points += chunk?.values.len();
    }
    println!("{points} points of {cpu}");
    Ok(())
}
